"""Connections to PostgreSQL: how they are opened, bounded, and what their failures mean.

Owns the session settings (time-outs, isolation, keepalives), the way from host to host, and the
translation of the driver's errors. Promises that a session of a stopped or vanished worker ends by
itself, that the worker notices a server that vanished, and that no error shows a password. Known
limits: behind a pooler in transaction mode nothing can be set for a session; `inboxd.store.pools`
sets it for each transaction instead. Hosts that are named outside the DSN's authority (`?host=`,
PGHOST) share one time-out.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from inboxd.errors import DatabaseAway, DatabaseError, SchemaError
from inboxd.model.masking import redact
from inboxd.settings import Database

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Row: TypeAlias = asyncpg.Record

# What a lost or unusable connection looks like; whatever was under way rolled back or will.
LOST = (
    DatabaseError,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # «another operation is in progress»: the connection was lost in the middle of one.
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DatabaseDroppedError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
)


# A statement that the session had prepared does not fit any more: a table, a type or a setting has
# changed since (a migration), or somebody has deallocated it. It is prepared anew (`prepared`).
VOID = (
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
)

# What a statement meets that is not its own fault: the same statement works a little later. Not so
# one that reached its time limit (57014): the same would reach it again, a smaller one may not.
PASSING = (*LOST, *VOID, asyncpg.TransactionRollbackError, asyncpg.LockNotAvailableError)


def is_passing(error: BaseException) -> bool:
    """Whether `error` is no row's fault: an outage, a full disk, a deadlock, no partition."""
    return is_without_partition(error) or isinstance(error, PASSING)


def is_late(error: BaseException) -> bool:
    """Whether it took longer than it may: a server that is slow, or one row of many to blame."""
    return isinstance(error, _LATE)


def waits_for_lock(error: BaseException) -> bool:
    """Whether it was late for a lock that another transaction has: that one is to blame."""
    return isinstance(error, asyncpg.LockNotAvailableError)


def is_away(error: BaseException) -> bool:
    """Whether the database cannot be asked now, rather than refuses: it may come back by itself."""
    return isinstance(error, LOST) and (error.__cause__ is None or is_passing(error.__cause__))


def is_without_partition(error: BaseException) -> bool:
    """Whether no partition was there for a row.

    Told from a CHECK by the place in the server's code: a message is in the server's language, and
    both have the same SQLSTATE.
    """
    return (
        isinstance(error, asyncpg.CheckViolationError)
        and error.server_source_function == _LOOKS_FOR_PARTITION
    )


def is_refusal(error: BaseException) -> bool:
    """Whether `error` is about what was to be written: the same would be refused again."""
    return isinstance(error, _REFUSALS) and not is_passing(error)


_LATE = (TimeoutError, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError)

# The function of PostgreSQL that finds no partition for a row.
_LOOKS_FOR_PARTITION = "ExecFindPartition"

_REFUSALS = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.RaiseError,
)

# A silent peer is probed; one that answers none of so many probes, so far apart, is gone.
_IDLE_SECONDS = 10
_PROBE_SECONDS = 5
_PROBES = 3

# What URLs of libpq say, as providers hand them out, and what has no meaning here, or is a setting
# of its own. To the driver it would be a setting of the server's, which has none of these.
_OF_LIBPQ = frozenset(
    {
        *("channel_binding", "connect_timeout", "gssencmode", "load_balance_hosts"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
        *("sslcompression", "sslnegotiation", "sslsni", "tcp_user_timeout"),
    }
)

# At these the next host may do better; any other refusal is the answer.
_NEXT_HOST = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)


# At these nobody answers, or only to say that it cannot yet; other refusals are an answer.
_NOBODY = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.PostgresConnectionError,
)


def _milliseconds(value: Any) -> str:
    return str(round(value.total_seconds() * 1000))


# The server cuts names at 63 bytes and writes what is not ASCII in its own way; by what a session
# is called it is found again, so its purpose stays whole.
_NAME = 50


def session_name(database: Database, purpose: str) -> str:
    """What a session is called in pg_stat_activity; with no purpose, how all of them begin."""
    name = "".join(each if " " <= each <= "~" else "?" for each in database.application_name)
    return f"{name[:_NAME]} {purpose}"


def session_settings(database: Database, purpose: str) -> dict[str, str]:
    """What each session of the daemon is told when it starts."""
    return {
        "application_name": session_name(database, purpose),
        "timezone": "UTC",
        "default_transaction_isolation": "read committed",
        "statement_timeout": _milliseconds(database.statement_timeout),
        "lock_timeout": _milliseconds(database.lock_timeout),
        "idle_in_transaction_session_timeout": _milliseconds(database.idle_in_transaction_timeout),
        "tcp_user_timeout": _milliseconds(database.tcp_user_timeout),
        "tcp_keepalives_idle": str(_IDLE_SECONDS),
        "tcp_keepalives_interval": str(_PROBE_SECONDS),
        "tcp_keepalives_count": str(_PROBES),
        # Compiling a plan costs more than any of these short statements.
        "jit": "off",
    }


# The daemon's own statements look at few rows of tables whose size swings between nothing and
# millions: a plan made while a table was empty must not read all of it later.
OWN_PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
# An operator's statements walk an index in order and stop at their limit, whatever the statistics
# say; they are planned for what is asked each time, since a filter decides which index serves it.
ERRAND_PLANS = {"enable_seqscan": "off", "plan_cache_mode": "force_custom_plan"}


def arguments(database: Database, purpose: str, plans: Mapping[str, str]) -> dict[str, Any]:
    """How the driver opens a session for `purpose`, with `plans` among its settings."""
    arguments: dict[str, Any] = {}
    if database.transaction_pooler:
        # It hands a session to whoever comes: nothing may be kept in one, or set for one.
        arguments["statement_cache_size"] = 0
        arguments["server_settings"] = {"application_name": session_name(database, purpose)}
    else:
        arguments["server_settings"] = session_settings(database, purpose) | dict(plans)
    if database.password is not None:
        arguments["password"] = database.current_password  # asked at each connection
    if database.tls_ca is not None:
        context = ssl.create_default_context(cafile=str(database.tls_ca))
        if database.tls_cert is not None and database.tls_key is not None:
            context.load_cert_chain(database.tls_cert, database.tls_key)
        arguments["ssl"] = context
    return arguments


@asynccontextmanager
async def apart(connection: Connection) -> AsyncIterator[None]:
    """A block that may fail without being the end of the transaction that is open, if one is."""
    if connection.is_in_transaction():
        async with connection.transaction():
            yield
    else:
        yield


async def one_row(connection: Connection, statement: str, *arguments: object) -> Row:
    """The row of a statement that always has one, such as an aggregate."""
    row = await connection.fetchrow(statement, *arguments)
    assert row is not None  # noqa: S101 - by what the statement is
    return row


async def connect(
    database: Database, purpose: str, plans: Mapping[str, str] = OWN_PLANS
) -> "asyncpg.Connection[asyncpg.Record]":
    """One connection. Raises DatabaseError, which says what to do."""
    try:
        return await dial(database, **arguments(database, purpose, plans))
    except (*LOST, asyncpg.PostgresError) as error:
        raise explain_connecting(error, database) from error


async def dial(database: Database, **words: Any) -> "asyncpg.Connection[asyncpg.Record]":
    """One connection to the first host that takes it, each with its share of `connect_timeout`.

    Of several hosts one that only reads is passed over: it is a standby, or was demoted.
    """
    hosts = dsn_of_each_host(database.dsn.get_secret_value())
    share = database.connect_timeout.total_seconds() / len(hosts)
    if len(hosts) > 1 and "target_session_attrs=" not in hosts[0]:
        words["target_session_attrs"] = "read-write"
    for dsn in hosts[:-1]:
        with suppress(*_NEXT_HOST):
            return _watched(await asyncpg.connect(dsn, timeout=share, **words), database)
    return _watched(await asyncpg.connect(hosts[-1], timeout=share, **words), database)


def dsn_of_each_host(dsn: str) -> list[str]:
    """The DSN for the driver, or one for each host that it names: `//user@a:5432,b/shop`."""
    before, _, query = dsn.partition("?")
    kept = [each for each in query.split("&") if each.partition("=")[0] not in _OF_LIBPQ]
    dsn = f"{before}?{'&'.join(kept)}" if any(kept) else before
    parts = urlsplit(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [dsn]
    return [parts._replace(netloc=f"{login}{at}{host}").geturl() for host in hosts.split(",")]


def _watched(
    connection: "asyncpg.Connection[asyncpg.Record]", database: Database
) -> "asyncpg.Connection[asyncpg.Record]":
    """Let this side notice, too, that the other vanished: `tcp_…` settings are the server's own."""
    transport = connection._transport  # type: ignore[attr-defined]  # noqa: SLF001 - the driver has no other way
    peer = transport.get_extra_info("socket")
    if peer is None or peer.family == socket.AF_UNIX:
        return connection
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", int(_milliseconds(database.tcp_user_timeout))),
    ):
        if hasattr(socket, name):  # not every system has them all
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(1, value))
    return connection


def whereabouts(connection: Connection) -> str:
    """Which database a connection leads to, for messages: its name, and the server's address."""
    driver: Any = connection  # it has no other way to tell
    address, name = driver._addr, driver._params.database  # noqa: SLF001
    host, port = address if isinstance(address, tuple) else (address, None)
    host = f"[{host}]" if ":" in host else host
    return f"database {name!r} at {host}" + (f":{port}" if port else "")


def _is_nobody(error: Exception) -> bool:
    """Whether nobody answers; what the other side says of TLS is an answer."""
    answered = isinstance(error, ssl.SSLError) or type(error) is ConnectionError
    return isinstance(error, _NOBODY) and not answered


def explain_connecting(error: Exception, database: Database) -> DatabaseError:
    """What failed, and what to do about it; the DSN without its password."""
    where = redact(database.dsn.get_secret_value())
    reason = redact(str(error)) or type(error).__name__
    advice = next((told for kinds, told in _ADVICE if isinstance(error, kinds)), _CORRECT)
    if type(error) is ConnectionError:  # asyncpg's: it was refused TLS, or the server has ended
        advice = "check that the server runs and has TLS (ssl = on), or ask for none (database.dsn)"
    kind = DatabaseAway if _is_nobody(error) else DatabaseError
    return kind(f"cannot connect to {where}: {reason}; {advice}")


_CORRECT = "correct database.dsn"
# The first that fits counts: what is more special stands before.
_ADVICE: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    (
        (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError),
        "check the user and the password (database.password_file), and pg_hba.conf",
    ),
    ((asyncpg.InvalidCatalogNameError,), "create the database, or correct database.dsn"),
    (
        (asyncpg.UndefinedObjectError, asyncpg.CantChangeRuntimeParamError),
        (
            "take that out of the query of database.dsn: what stands there is PostgreSQL's own "
            "(TLS is asked for by sslmode=require, another schema by database.schema)"
        ),
    ),
    (
        (asyncpg.TooManyConnectionsError,),
        "raise max_connections, or lower database.pool_size and handler_pool_size",
    ),
    (
        (asyncpg.CannotConnectNowError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError),
        "wait until it takes connections again: it starts, stops or recovers",
    ),
    (
        (asyncpg.TargetServerAttributeNotMatched,),
        "wait for the failover, or name the primary in database.dsn",
    ),
    (
        (ssl.SSLCertVerificationError,),
        (
            "check that database.tls_ca (or sslrootcert) is the authority of this server, and that "
            "database.dsn calls it by the name that its certificate has"
        ),
    ),
    (
        (TimeoutError,),
        "nobody answered in time: check host, port and firewall, or connect_timeout",
    ),
    (
        (OSError,),
        "check that PostgreSQL runs there and accepts TCP connections (database.dsn)",
    ),
)


# What is said to a daemon's role that may not do something.
_TO_THE_DAEMON = "grant it to the daemon's role; see: inboxd check"


@contextmanager
def explained(
    to_the_denied: str = _TO_THE_DAEMON, asked: "Connection | None" = None
) -> Iterator[None]:
    """What fails in the block comes out in words, as DatabaseError or SchemaError.

    asked: the connection, whose database is named where its schema does not fit.
    """
    try:
        yield
    except asyncpg.PostgresError as error:
        raise explain(error, to_the_denied, asked) from error
    except DatabaseError:
        raise  # it says what is wrong
    except LOST as error:
        reason = redact(str(error)) or type(error).__name__
        raise DatabaseError(f"the connection to the database was lost: {reason}") from error


def explain(
    error: asyncpg.PostgresError,
    to_the_denied: str = _TO_THE_DAEMON,
    asked: "Connection | None" = None,
) -> DatabaseError | SchemaError:
    """A statement's failure in words to act on, without its DETAIL, which quotes rows."""
    said = redact(str(error.args[0]) if error.args else type(error).__name__)
    match error:
        case (
            asyncpg.UndefinedTableError()
            | asyncpg.UndefinedFunctionError()
            | asyncpg.UndefinedColumnError()
            | asyncpg.InvalidSchemaNameError()
        ):
            where = f" of {whereabouts(asked)}" if asked else ""
            return SchemaError(
                f"{said}: the schema{where} is missing or too old; run: inboxd migrate"
            )
        case _ if is_without_partition(error):
            return DatabaseError(f"{said}: nothing was changed; run: inboxd history make")
        case asyncpg.InsufficientPrivilegeError(hint=str(hint)):
            return DatabaseError(f"{said}; {hint}")  # our functions' own remedy
        case asyncpg.InsufficientPrivilegeError():
            return DatabaseError(f"{said}: {to_the_denied}")
        case asyncpg.OutOfMemoryError(hint=str(hint)):
            # Of locks, most likely: the server's own words name the setting.
            return DatabaseError(f"{said}; {hint} (see: inboxd doctor)")
        case _:
            return DatabaseError(said)
