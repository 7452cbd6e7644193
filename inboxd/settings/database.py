"""How the daemon reaches PostgreSQL.

Owns `[database]`. Promises that the parts of a DSN can be told apart. Known limit: whether the
server is there, and what its login may do, is found out by `inboxd check`.
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
            "its user, password or host cannot be told apart: percent-encode what is special in a "
            "password (@ is %40, / is %2F, : is %3A, ? is %3F, # is %23), or give it apart "
            "(database.password_file)"
        )
    return value


def _other_form(dsn: str) -> str:
    """What to change about one that another program understands."""
    if found := re.match(r"postgres(?:ql)?(\+\w+)://", dsn):
        return f"; leave out {found[1]}"
    if dsn.startswith("jdbc:"):
        return "; leave out jdbc:, and write user and password before the host"
    if re.match(r"\w+ ?= ?\S", dsn):
        return "; host=… user=… dbname=… is another form of the same"
    return ""


def _is_torn(dsn: str) -> bool:
    """Whether a part of the login is taken for something else, since it holds an @ or a slash."""
    try:
        parts = urlsplit(dsn)
    except ValueError:
        return True
    login, _, hosts = parts.netloc.rpartition("@")
    ports = (each.rpartition("]")[2].partition(":")[2] for each in hosts.split(","))
    # A query is name=value; without the equals sign it is the rest of a password.
    rest = parts.query.partition("@")[0] if "@" in parts.query else "="
    torn = "@" in login + parts.path + parts.fragment or "=" not in rest
    return torn or any(p and not p.isdigit() for p in ports)


def _schema(name: str) -> str:
    if is_reserved(name):
        raise ValueError("that is a word of SQL's own; take another one, such as inboxd_shop")
    if name.startswith("pg_") or name == "information_schema":
        raise ValueError("PostgreSQL keeps that name for itself; take another one")
    return name


class Database(Section):
    """How the daemon reaches PostgreSQL, and the bounds of its sessions."""

    dsn: Annotated[SecretStr, AfterValidator(_dsn)] = Field(
        SecretStr("postgresql://localhost/postgres"),
        description="Where PostgreSQL is; several hosts are tried in turn (a failover's peers).",
    )
    schema_name: Annotated[str, AfterValidator(_schema)] = Field(
        "inboxd",
        alias="schema",
        pattern=r"^[a-z_][a-z0-9_]{0,39}$",
        description="Schema of inboxd's tables. Another name where several services share a "
        "database.",
    )
    password: SecretStr | None = Field(
        None,
        description="Password, in place of the DSN's. A file is better: no process list shows it.",
    )
    password_file: Path | None = Field(
        None,
        description="File that holds only the password; stronger than `password`. It is read at "
        "each connection, so a new password needs no restart. For secrets that a platform mounts.",
    )
    tls_ca: Path | None = Field(
        None,
        description="PEM file of the authorities that may vouch for the server. Set it to have "
        "the server's certificate verified.",
    )
    tls_cert: Path | None = Field(
        None,
        description="PEM file of the daemon's own certificate, for servers that ask for one; "
        "needs `tls_ca`.",
    )
    tls_key: Path | None = Field(None, description="PEM file of that certificate's private key.")
    pool_size: int = Field(
        5,
        ge=1,
        le=100,
        description="Connections of the daemon itself, for claims and settlements; more than "
        "events.chunk_concurrency. Raise it when `inboxd_pool_connections` shows no idle one for "
        "long.",
    )
    handler_pool_size: int = Field(
        10,
        ge=1,
        le=1000,
        description="Connections for handlers, apart from the daemon's, so that they cannot "
        "starve it. Raise it when commands that use the database wait for each other; lower it "
        "when the server has too few.",
    )
    connect_timeout: Duration = Field(
        seconds(10),
        description="How long one attempt to connect may take, all hosts together. Raise it on a "
        "slow way to the server; lower it to try a failover's next host sooner.",
    )
    statement_timeout: Duration = Field(
        seconds(30),
        description="How long the server lets one statement run. Raise it when statements of "
        "handlers, or of a slow server, are cut off.",
    )
    lock_timeout: Duration = Field(
        seconds(10),
        description="How long one statement may wait for a lock. Lower it when a lock of a "
        "producer or a migration delays pages and settlements for too long; raise it when "
        "statements fail whose locks would soon be free.",
    )
    idle_in_transaction_timeout: Duration = Field(
        seconds(60),
        description="When the server ends a session that stopped in a transaction, and so frees "
        "the page of a stopped worker; one that stopped in the middle of a statement is ended by "
        "another worker. Lower it to free such pages sooner; raise it for event handlers that "
        "need longer.",
    )
    tcp_user_timeout: Duration = Field(
        seconds(15),
        description="When the server and the worker give each other up if data is not "
        "acknowledged. Lower it to notice a vanished machine sooner; raise it where the network "
        "loses packets for longer.",
    )
    application_name: str = Field(
        "inboxd",
        min_length=1,
        max_length=63,
        description="How the names of the sessions in pg_stat_activity begin. Change it to tell "
        "services on one server apart.",
    )
    transaction_pooler: bool = Field(
        default=False,
        description="True behind PgBouncer in transaction mode: nothing is kept in a session. "
        'Needs wakeups.mode = "off".',
    )

    # Whether the password is what its file held, and the file may have a new one.
    _is_from_file: bool = PrivateAttr(default=False)

    @property
    def password_is_from_file(self) -> bool:
        """Whether a new password needs no restart."""
        return self._is_from_file

    def take_password_from_file(self, *, known: bool) -> None:
        """`known`: the password was read from `password_file`, and from nowhere stronger."""
        self._is_from_file = known

    def current_password(self) -> str | None:
        """The password for a new session: of its file what that holds now, as after a rotation."""
        if self._is_from_file and self.password_file is not None:
            with suppress(SettingsError):  # it is being replaced, or was removed: the last one
                return read_secret(self.password_file)
        return None if self.password is None else self.password.get_secret_value()
