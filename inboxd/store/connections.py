"""Connections to PostgreSQL: how they are opened and bounded, and what their errors mean.

Promises that the session of a stopped or vanished worker ends by itself, that the worker detects a
vanished server, and that no error shows a password. Known limit: hosts that are named outside the
DSN's authority (`?host=`, PGHOST) share one time-out.
"""

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import asyncpg

from inboxd.errors import DatabaseAway, DatabaseError, SchemaError
from inboxd.model.masking import redact
from inboxd.settings import Database

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Row: TypeAlias = asyncpg.Record

# Errors of a lost or unusable connection; its open transaction has been or will be rolled back.
LOST = (
    DatabaseError,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # «another operation is in progress»: the connection was lost during an operation.
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.DatabaseDroppedError,
    asyncpg.InsufficientResourcesError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
)


# A prepared statement is not valid any more: a table, a type or a setting has changed since (a
# migration), or it was deallocated. `prepared` prepares it again.
VOID = (
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
)

# Errors that are not caused by the statement: it would succeed a little later. This excludes the
# statement time limit (57014), which the same statement would reach again.
PASSING = (*LOST, *VOID, asyncpg.TransactionRollbackError, asyncpg.LockNotAvailableError)


def is_passing(error: BaseException) -> bool:
    """Whether `error` is not caused by a row: an outage, a full disk, a deadlock, no partition."""
    return is_without_partition(error) or isinstance(error, PASSING)


def is_late(error: BaseException) -> bool:
    """Whether a time limit was reached: the server is slow, or one of many rows is."""
    return isinstance(error, _LATE)


def waits_for_lock(error: BaseException) -> bool:
    """Whether the lock time limit was reached: the cause is the transaction that holds the lock."""
    return isinstance(error, asyncpg.LockNotAvailableError)


def is_away(error: BaseException) -> bool:
    """Whether the database is unreachable, not refusing: it may come back by itself."""
    return isinstance(error, LOST) and (error.__cause__ is None or is_passing(error.__cause__))


def is_without_partition(error: BaseException) -> bool:
    """Known by the server's source function: the SQLSTATE is a CHECK's, messages are translated."""
    return (
        isinstance(error, asyncpg.CheckViolationError)
        and error.server_source_function == _LOOKS_FOR_PARTITION
    )


def is_refusal(error: BaseException) -> bool:
    """Whether the written values cause `error`: the server would refuse them again."""
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

# A peer that is silent for _IDLE_SECONDS is probed; after _PROBES unanswered probes it is gone.
_IDLE_SECONDS = 10
_PROBE_SECONDS = 5
_PROBES = 3

# libpq's URL parameters that hosting providers include, and that have no effect here or a setting
# of their own. The driver would send them to the server as settings, which it does not have.
_OF_LIBPQ = frozenset(
    {
        *("channel_binding", "connect_timeout", "gssencmode", "load_balance_hosts"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
        *("sslcompression", "sslnegotiation", "sslsni", "tcp_user_timeout"),
    }
)

# After these errors the next host is tried; any other error ends the attempt.
_NEXT_HOST = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)


# After these errors the server counts as unreachable, or not ready; any other error is an answer.
_UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.PostgresConnectionError,
)


def _milliseconds(value: Any) -> str:
    return str(round(value.total_seconds() * 1000))


# Bytes of the application name that are kept: the server cuts names at 63 bytes, and the purpose
# has to stay whole, since sessions are found by it.
_NAME_BYTES = 50


def session_name(database: Database, purpose: str) -> str:
    """The application_name of a session; with an empty purpose, the prefix that all share."""
    name = "".join(each if " " <= each <= "~" else "?" for each in database.application_name)
    return f"{name[:_NAME_BYTES]} {purpose}"


def session_settings(database: Database, purpose: str) -> dict[str, str]:
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


# The daemon's statements read few rows of tables that may grow from empty to millions of rows: a
# plan that was made for an empty table must not become a sequential scan later.
OWN_PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
# An operator's statements read an index in order up to their limit, whatever the statistics say.
# They are planned at each call, since the filter decides which index fits.
ERRAND_PLANS = {"enable_seqscan": "off", "plan_cache_mode": "force_custom_plan"}


def arguments(database: Database, purpose: str, plans: Mapping[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if database.transaction_pooler:
        # The pooler gives the session to other clients: it must keep no state.
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


async def dial(database: Database, **words: Any) -> Connection:
    """Each host gets its share of `connect_timeout`; of several, read-only ones are skipped."""
    hosts = dsn_of_each_host(database.dsn.get_secret_value())
    share = database.connect_timeout.total_seconds() / len(hosts)
    if len(hosts) > 1 and "target_session_attrs=" not in hosts[0]:
        words["target_session_attrs"] = "read-write"
    for dsn in hosts[:-1]:
        with suppress(*_NEXT_HOST):
            return _watched(await asyncpg.connect(dsn, timeout=share, **words), database)
    return _watched(await asyncpg.connect(hosts[-1], timeout=share, **words), database)


def dsn_of_each_host(dsn: str) -> list[str]:
    """The DSN for the driver, or one per host for a list of hosts: `//user@a:5432,b/shop`."""
    before, _, query = dsn.partition("?")
    kept = [each for each in query.split("&") if each.partition("=")[0] not in _OF_LIBPQ]
    dsn = f"{before}?{'&'.join(kept)}" if any(kept) else before
    parts = urlsplit(dsn)
    login, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return [dsn]
    return [parts._replace(netloc=f"{login}{at}{host}").geturl() for host in hosts.split(",")]


def _watched(connection: Connection, database: Database) -> Connection:
    """Let this side detect a vanished server: `tcp_…` settings affect only the server's side."""
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
    driver: Any = connection  # it has no public way to ask
    address, name = driver._addr, driver._params.database  # noqa: SLF001
    host, port = address if isinstance(address, tuple) else (address, None)
    host = f"[{host}]" if ":" in host else host
    return f"database {name!r} at {host}" + (f":{port}" if port else "")


def _is_unreachable(error: Exception) -> bool:
    """Whether the server did not answer; a TLS error is an answer."""
    answered = isinstance(error, ssl.SSLError) or type(error) is ConnectionError
    return isinstance(error, _UNREACHABLE) and not answered


def explain_connecting(error: Exception, database: Database) -> DatabaseError:
    where = redact(database.dsn.get_secret_value())
    reason = redact(str(error)) or type(error).__name__
    advice = next((told for kinds, told in _ADVICE if isinstance(error, kinds)), _CORRECT)
    if type(error) is ConnectionError:  # asyncpg raises it if the server refuses TLS, or ends
        advice = (
            "check that the server runs; enable TLS on it (ssl = on), or connect without TLS "
            "(sslmode=disable)"
        )
    kind = DatabaseAway if _is_unreachable(error) else DatabaseError
    return kind(f"cannot connect to {where}: {reason}; {advice}")


_CORRECT = "correct database.dsn"
# The first entry that matches counts, so subclasses stand before their bases.
_ADVICE: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    (
        (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError),
        "check the user and the password (database.password_file), and pg_hba.conf",
    ),
    ((asyncpg.InvalidCatalogNameError,), "create the database, or correct database.dsn"),
    (
        (asyncpg.UndefinedObjectError, asyncpg.CantChangeRuntimeParamError),
        (
            "remove that parameter from the query of database.dsn, which may only name settings "
            "of PostgreSQL (sslmode=require asks for TLS, database.schema names the schema)"
        ),
    ),
    (
        (asyncpg.TooManyConnectionsError,),
        "raise max_connections, or lower database.pool_size and handler_pool_size",
    ),
    (
        (asyncpg.CannotConnectNowError, asyncpg.AdminShutdownError, asyncpg.CrashShutdownError),
        "wait until it accepts connections again: it is starting, stopping or recovering",
    ),
    (
        (asyncpg.TargetServerAttributeNotMatched,),
        "wait for the failover, or name the primary in database.dsn",
    ),
    (
        (ssl.SSLCertVerificationError,),
        (
            "check that database.tls_ca (or sslrootcert) is the authority of this server, and that "
            "the host name in database.dsn is the one in its certificate"
        ),
    ),
    (
        (TimeoutError,),
        "no answer in time: check host, port and firewall, or raise connect_timeout",
    ),
    (
        (OSError,),
        "check that PostgreSQL runs there and accepts TCP connections (database.dsn)",
    ),
)


# The remedy where the daemon's role lacks a privilege.
_TO_THE_DAEMON = "grant it to the daemon's role; see: inboxd check"


@contextmanager
def explained(
    to_the_denied: str = _TO_THE_DAEMON, asked: "Connection | Callable[[], str] | None" = None
) -> Iterator[None]:
    """Raise DatabaseError or SchemaError. asked: whose whereabouts a message gives."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise explain(error, to_the_denied, asked) from error
    except DatabaseError:
        raise  # already explained
    except LOST as error:
        reason = redact(str(error)) or type(error).__name__
        raise DatabaseError(f"the connection to the database was lost: {reason}") from error


def explain(
    error: asyncpg.PostgresError,
    to_the_denied: str = _TO_THE_DAEMON,
    asked: "Connection | Callable[[], str] | None" = None,
) -> DatabaseError | SchemaError:
    """The server's message with a remedy, and without its DETAIL, which quotes rows."""
    said = redact(str(error.args[0]) if error.args else type(error).__name__)
    match error:
        case (
            asyncpg.UndefinedTableError()
            | asyncpg.UndefinedFunctionError()
            | asyncpg.UndefinedColumnError()
            | asyncpg.InvalidSchemaNameError()
        ):
            where = asked() if callable(asked) else whereabouts(asked) if asked else ""
            of = f" of {where}" if where else ""
            return SchemaError(f"{said}: the schema{of} is missing or too old; run: inboxd migrate")
        case _ if is_without_partition(error):
            return DatabaseError(f"{said}: nothing was changed; run: inboxd history make")
        case asyncpg.InsufficientPrivilegeError(hint=str(hint)):
            return DatabaseError(f"{said}; {hint}")  # our functions' own remedy
        case asyncpg.InsufficientPrivilegeError():
            return DatabaseError(f"{said}: {to_the_denied}")
        case asyncpg.OutOfMemoryError(hint=str(hint)):
            # Most likely out of locks: the server's hint names the setting.
            return DatabaseError(f"{said}; {hint} (see: inboxd doctor)")
        case _:
            return DatabaseError(said)
