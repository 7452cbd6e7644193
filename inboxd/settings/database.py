"""The connection to PostgreSQL.

Owns `[database]`. Promises that the parts of a DSN are unambiguous. Known limit: `inboxd check`
finds out whether the server answers and which rights the login has.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PrivateAttr, SecretStr

from inboxd.errors import SettingsError
from inboxd.model.sql_words import is_reserved
from inboxd.settings.base import Section, seconds
from inboxd.settings.secrets import read_secret
from inboxd.settings.values import Duration


def _dsn(value: SecretStr) -> SecretStr:
    if not re.match(r"postgres(ql)?://", value.get_secret_value()):
        told = "a DSN starts with postgresql://, such as postgresql://app@db1,db2/shop"
        raise ValueError(f"{told}{_other_form(value.get_secret_value())}")
    if _is_torn(value.get_secret_value()):
        raise ValueError(
            "its user, password and host are ambiguous: percent-encode special characters of a "
            "password (@ is %40, / is %2F, : is %3A, ? is %3F, # is %23), or set it separately "
            "(database.password_file)"
        )
    return value


def _other_form(dsn: str) -> str:
    """A remedy for a DSN in the form of another program; empty: its form is unknown."""
    if found := re.match(r"postgres(?:ql)?(\+\w+)://", dsn):
        return f"; leave out {found[1]}"
    if dsn.startswith("jdbc:"):
        return "; leave out jdbc:, and write user and password before the host"
    if re.match(r"\w+ ?= ?\S", dsn):
        return "; host=… user=… dbname=… is not a URL: rewrite it as one"
    return ""


def _is_torn(dsn: str) -> bool:
    """Whether an @ or a slash in the login makes the DSN ambiguous."""
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return True
    login, _, hosts = parts.netloc.rpartition("@")
    ports = (each.rpartition("]")[2].partition(":")[2] for each in hosts.split(","))
    # A query is name=value; without the equals sign it is the tail of a password.
    rest = parts.query.partition("@")[0] if "@" in parts.query else "="
    torn = "@" in login + parts.path + parts.fragment or "=" not in rest
    return torn or any(p and not p.isdigit() for p in ports)


def _schema(name: str) -> str:
    if is_reserved(name):
        raise ValueError("is a reserved word of SQL; use another name, such as inboxd_shop")
    if name.startswith("pg_") or name == "information_schema":
        raise ValueError("is reserved by PostgreSQL; use another name")
    return name


class Database(Section):
    """The connection to PostgreSQL, and the limits of its sessions."""

    dsn: Annotated[SecretStr, AfterValidator(_dsn)] = Field(
        SecretStr("postgresql://localhost/postgres"),
        description="Address of PostgreSQL; several hosts are tried in turn (for a failover).",
    )
    schema_name: Annotated[str, AfterValidator(_schema)] = Field(
        "inboxd",
        alias="schema",
        pattern=r"^[a-z_][a-z0-9_]{0,39}$",
        description="Schema of inboxd's tables. Change it if several services share a database.",
    )
    password: SecretStr | None = Field(
        None,
        description="Password, in place of the one in the DSN. Prefer `password_file`: "
        "no process list shows it.",
    )
    password_file: Path | None = Field(
        None,
        description="File that holds only the password; it replaces `password`. The file is read "
        "at each connection, so a new password needs no restart. Set it for secrets that a "
        "platform mounts.",
    )
    tls_ca: Path | None = Field(
        None,
        description="PEM file of the certificate authorities that are trusted for the server. Set "
        "it so that the server's certificate is verified.",
    )
    tls_cert: Path | None = Field(
        None,
        description="PEM file of the daemon's own certificate, for servers that require one; "
        "needs `tls_ca`.",
    )
    tls_key: Path | None = Field(None, description="PEM file of that certificate's private key.")
    pool_size: int = Field(
        5,
        ge=1,
        le=100,
        description="Connections of the daemon itself, for claims and settlements; more than "
        "events.chunk_concurrency. Raise it when `inboxd_pool_connections` shows no idle "
        "connection for long.",
    )
    handler_pool_size: int = Field(
        10,
        ge=1,
        le=1000,
        description="Connections for handlers, separate from `pool_size`, so that handlers cannot "
        "starve the daemon. Raise it when commands that use the database wait for each other; "
        "lower it when the server has too few connections.",
    )
    connect_timeout: Duration = Field(
        seconds(10),
        description="Time limit for one attempt to connect, over all hosts together. Raise it for "
        "a server behind a slow network; lower it to try the next host sooner in a failover.",
    )
    statement_timeout: Duration = Field(
        seconds(30),
        description="Time limit for one statement, set in the server. Raise it when statements of "
        "handlers, or of a slow server, are cut off.",
    )
    lock_timeout: Duration = Field(
        seconds(10),
        description="Time limit for one statement to get a lock. Lower it when a lock of a "
        "producer or a migration delays pages and settlements for too long; raise it when "
        "statements fail whose locks would soon be free.",
    )
    idle_in_transaction_timeout: Duration = Field(
        seconds(60),
        description="Time after which the server ends a session that is idle in a transaction, "
        "and so frees the page of a frozen worker. (Another worker ends a session that froze in "
        "the middle of a statement.) Lower it to free such pages sooner; raise it for event "
        "handlers that need longer.",
    )
    tcp_user_timeout: Duration = Field(
        seconds(15),
        description="Time without acknowledgement of sent data after which the server and the "
        "worker drop a connection. Lower it to notice a vanished machine sooner; raise it if the "
        "network loses packets for longer.",
    )
    application_name: str = Field(
        "inboxd",
        min_length=1,
        max_length=63,
        description="Prefix of the session names in pg_stat_activity. Change it to tell services "
        "on one server apart.",
    )
    transaction_pooler: bool = Field(
        default=False,
        description="Set it to true behind PgBouncer in transaction mode: then no state is kept "
        'in a session. Needs wakeups.mode = "off".',
    )

    # The password came from its file, which may hold a new one later.
    _is_from_file: bool = PrivateAttr(default=False)

    @property
    def password_is_from_file(self) -> bool:
        """Whether a new password takes effect without a restart."""
        return self._is_from_file

    def take_password_from_file(self, *, known: bool) -> None:
        """`known`: the password was read from `password_file`, and no stronger source gave one."""
        self._is_from_file = known

    def current_password(self) -> str | None:
        """The password for a new session: a password file is read anew, for rotations."""
        if self._is_from_file and self.password_file is not None:
            # the file is being replaced, or was removed: use the last password
            with suppress(SettingsError):
                return read_secret(self.password_file)
        return None if self.password is None else self.password.get_secret_value()
