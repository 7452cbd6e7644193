"""The settings themselves: one frozen model a section, one section a room.

Owns every setting's name, type, default, bounds and description; `config.example.toml` and
`docs/settings.md` are held against these models by a test. Promises that an instance is
consistent: contradictions between settings are refused here, not found at 3 a.m.
Known limit: a handler's retry override is only shaped like a table here; its keys are checked
when the plugins are loaded, because only they know the policy that it changes.
"""

import ipaddress
import re
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from inboxd.settings.values import Duration, Names, RateLimit, Size

_MAX_HEARTBEAT_SHARE = 4


def _dsn(value: SecretStr) -> SecretStr:
    if not re.match(r"postgres(ql)?://", value.get_secret_value()):
        raise ValueError("a DSN starts with postgresql://, such as postgresql://app@db1,db2/shop")
    return value


def _seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


class Section(BaseModel):
    """What all sections share: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Database(Section):
    """How the daemon reaches PostgreSQL, and the bounds of its sessions."""

    dsn: Annotated[SecretStr, AfterValidator(_dsn)] = Field(
        SecretStr("postgresql://localhost/postgres"),
        description="Where PostgreSQL is; several hosts are tried in turn (a failover's peers).",
    )
    schema_name: str = Field(
        "inboxd",
        alias="schema",
        pattern=r"^[a-z_][a-z0-9_]{0,39}$",
        description="Schema of inboxd's tables; several may live in one database.",
    )
    password: SecretStr | None = Field(
        None,
        description="Password, if the DSN has none; better a file, which no process list shows.",
    )
    password_file: Path | None = Field(
        None, description="File that holds only the password; stronger than `password` in TOML."
    )
    tls_ca: Path | None = Field(
        None, description="PEM file of the authorities that may vouch for the server."
    )
    tls_cert: Path | None = Field(
        None, description="PEM file of the daemon's own certificate, for servers that ask for one."
    )
    tls_key: Path | None = Field(None, description="PEM file of that certificate's private key.")
    pool_size: int = Field(
        5, ge=1, le=100, description="Connections of the daemon itself: claims and settlements."
    )
    handler_pool_size: int = Field(
        10,
        ge=1,
        le=1000,
        description="Connections for handlers, apart from the daemon's, so that they cannot "
        "starve it.",
    )
    connect_timeout: Duration = Field(
        _seconds(10), description="How long one attempt to connect may take."
    )
    statement_timeout: Duration = Field(
        _seconds(30), description="How long the server lets one statement run."
    )
    lock_timeout: Duration = Field(
        _seconds(10), description="How long one statement may wait for a lock."
    )
    idle_in_transaction_timeout: Duration = Field(
        _seconds(60),
        description="When the server ends a session that stopped in a transaction, and so frees "
        "the page of a stopped worker.",
    )
    tcp_user_timeout: Duration = Field(
        _seconds(15), description="When the server gives up a peer that acknowledges no data."
    )
    keepalives_idle: Duration = Field(
        _seconds(10), description="Silence after which the server probes whether the peer lives."
    )
    application_name: str = Field(
        "inboxd",
        min_length=1,
        max_length=63,
        description="Name of the sessions in pg_stat_activity.",
    )
    transaction_pooler: bool = Field(
        default=False,
        description="True behind PgBouncer in transaction mode: nothing is kept in a session. "
        'Needs wakeups.mode = "off".',
    )

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: set both or neither")
        return self


class Worker(Section):
    """This daemon process: what it serves, and how it shows that it lives."""

    name: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=200,
        description="Name on screens and in logs, the host's by default; it need not be unique.",
    )
    plugins: Names = Field((), description="Entry points to load; empty: all that are installed.")
    queues: Names = Field(
        (), description="Queues to serve; empty: all. Events are served by every worker."
    )
    lease: Duration = Field(
        _seconds(30),
        description="Silence after which the others take a worker for dead and its commands over.",
    )
    heartbeat_interval: Duration = Field(
        _seconds(5),
        description="How often the worker shows that it lives; at most a quarter of the lease, so "
        "that three may fail.",
    )
    drain_timeout: Duration = Field(
        _seconds(25),
        description="What running handlers get after SIGTERM; below the 30s of Kubernetes.",
    )
    stall_timeout: Duration = Field(
        _seconds(60),
        description="How long a handler may block the event loop before the process is ended.",
    )
    poll_interval: Duration = Field(
        _seconds(5),
        description="Longest sleep without a look: the latency when every wake-up is lost.",
    )
    unserved_grace: Duration = Field(
        _seconds(30),
        description="How long a type may have no living worker that serves it before its rows "
        "become dead letters; covers a rolling deploy.",
    )
    crash_limit: int = Field(
        3, ge=1, le=100, description="Deaths of a worker that make a row a dead letter."
    )

    @model_validator(mode="after")
    def _heartbeat_fits_lease(self) -> Self:
        if self.heartbeat_interval * _MAX_HEARTBEAT_SHARE > self.lease:
            raise ValueError("heartbeat_interval must be at most a quarter of lease")
        return self


class Events(Section):
    """The event processor: a page is one transaction."""

    page_rows: int = Field(1000, ge=1, le=10_000, description="Most events in one transaction.")
    page_bytes: Size = Field(
        32 * 1024**2, description="Most bytes of payloads in one page: bounds memory."
    )
    page_time: Duration = Field(
        _seconds(1),
        description="When a page starts no further event: rows that handlers touched stay locked "
        "until its commit.",
    )
    page_commands: int = Field(
        10_000, ge=1, le=1_000_000, description="Commands after which a page starts no more events."
    )
    timeout: Duration = Field(
        _seconds(10),
        description="What one event's handlers get; less than "
        "database.idle_in_transaction_timeout. Slow work is a command.",
    )


class Commands(Section):
    """The command processor: each command is atomic on its own."""

    page_rows: int = Field(
        500,
        ge=1,
        le=10_000,
        description="Most commands in one claim, and most that are leased ahead of their start "
        "while commands end at once.",
    )
    concurrency: int = Field(
        100, ge=1, le=10_000, description="Most commands that run at the same time."
    )
    in_flight_bytes: Size = Field(
        64 * 1024**2, description="Most bytes of payloads in flight: bounds memory."
    )
    timeout: Duration = Field(
        _seconds(60), description="What one command's handler gets, unless it declares its own."
    )


class Queue(Section):
    """Limits of one queue, and what its ordering keys mean."""

    concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most commands of this queue in flight in this process; unset: only "
        "commands.concurrency bounds it.",
    )
    total_concurrency: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Most commands of this queue in flight in all workers together; unset: as "
        "many as they can. Give all workers the same.",
    )
    rate: RateLimit | None = Field(
        None,
        description="Most commands of this queue that all workers start in any second, minute or "
        'hour: "10/s", "600/m", "5000/h"; unset: as many as they can.',
    )
    priority: int = Field(
        0,
        ge=-(2**15),
        lt=2**15,
        description="Added to the priority of each of its commands: what is smaller goes first.",
    )
    key_concurrency: int = Field(
        1,
        ge=1,
        le=10_000,
        description="Most commands of one ordering key in flight in all workers together; 1: one "
        "after the other, in order.",
    )
    key_failure: Literal["block", "skip"] = Field(
        "block",
        description="What a dead letter does to its ordering key. block: the key waits until it "
        "is replayed or dismissed; skip: the next one goes on. Only where key_concurrency is 1; "
        "with more there is no order to keep.",
    )


class RetryDefaults(Section):
    """The policy of handlers that declare none."""

    kind: Literal["exponential", "linear", "fixed"] = Field(
        "exponential", description="How the waits grow."
    )
    base: Duration = Field(_seconds(2), description="The first wait.")
    factor: float = Field(
        2, ge=1, le=100, description="What each wait is multiplied by (exponential only)."
    )
    cap: Duration = Field(timedelta(hours=1), description="The longest wait.")
    attempts: int = Field(
        15, ge=1, le=1000, description="Executions in all, the first one included."
    )
    jitter: Literal["full", "none"] = Field(
        "full", description="full: a random part of the wait, so that retries do not march in step."
    )


class TypeOverride(Section):
    """What an operator changes for one type, without a new release of the plugin."""

    timeout: Duration | None = Field(None, description="What its handler gets.")
    queue: str | None = Field(None, min_length=1, description="Queue of new commands of the type.")
    retry: dict[str, Any] | None = Field(
        None, description="Keys of a retry policy, laid over the handler's own."
    )


class Schedule(Section):
    """What is sent at certain times; under the name of a plugin's schedule, what changes there."""

    cron: str | None = Field(
        None,
        description="When: minute, hour, day of month, month, day of week. Needed, unless it is a "
        "plugin's schedule.",
    )
    zone: str | None = Field(
        None, description="The time zone of `cron`, such as Europe/Berlin; unset: UTC."
    )
    event: str | None = Field(None, description="The event type to emit; this or `command`.")
    command: str | None = Field(None, description="The command type to send.")
    payload: dict[str, Any] | None = Field(None, description="What it says; unset: nothing, {}.")
    time_field: str | None = Field(
        None, description="The field of the payload that gets the time of the run."
    )
    topic: str | None = Field(None, description="Topic of the event; unset: default.")
    queue: str | None = Field(None, description="Queue of the command; unset: the declared one.")
    priority: int | None = Field(
        None, description="Priority of the command, smaller first; unset: the declared one."
    )
    tenant: str | None = Field(None, description="Tenant of what is sent.")
    missed: Literal["skip", "once", "all"] | None = Field(
        None,
        description="Runs that nobody could send within a minute. skip: dropped; once, if unset: "
        "one in place of all of them; all: each, the newest 1,000 at the most.",
    )


class Wakeups(Section):
    """How the worker learns of new rows; correctness never depends on it."""

    mode: Literal["quiet", "always", "off"] = Field(
        "quiet",
        description="quiet: producers notify only while a worker sleeps; always: at each insert; "
        "off: poll only (PgBouncer in transaction mode).",
    )
    sweep_interval: Duration = Field(
        _seconds(1),
        description="How often, under backlog, a claim starts from the oldest row to find late "
        "commits.",
    )
    listen_check_interval: Duration = Field(
        _seconds(10),
        description="How often the listening connection is tested: a half-open one is silent.",
    )


class Http(Section):
    """Health and metrics; shows no payloads."""

    enabled: bool = Field(default=True, description="Whether to serve them at all.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8797, ge=0, le=65535, description="TCP port; 0: any free one.")
    allow_remote: bool = Field(
        default=False,
        description="Whether `host` may be reachable from elsewhere: there is no login.",
    )

    @model_validator(mode="after")
    def _loopback_unless_allowed(self) -> Self:
        if not (self.allow_remote or _is_loopback(self.host)):
            raise ValueError(
                f"host {self.host!r} can be reached from other machines; "
                "use 127.0.0.1, or set allow_remote = true behind a firewall"
            )
        return self


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Log(Section):
    """What the process writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severity that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, otherwise JSON, one object a line."
    )


class History(Section):
    """Where settled rows go."""

    partitions_ahead: Duration = Field(
        timedelta(days=14),
        description="How far ahead partitions are made: the time to notice that making them fails.",
    )


class Upkeep(Section):
    """Duties that one elected worker does for all."""

    interval: Duration = Field(
        _seconds(30), description="How often partitions, reaping and purging are looked after."
    )
    stats_interval: Duration = Field(
        _seconds(5), description="How often counts are written to the stats table."
    )


class Settings(BaseSettings):
    """All settings of one daemon. Made by `inboxd.settings.load`, frozen, consistent."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix="INBOXD_",
        env_nested_delimiter="__",
    )

    database: Database = Field(default_factory=Database)
    worker: Worker = Field(default_factory=Worker)
    events: Events = Field(default_factory=Events)
    commands: Commands = Field(default_factory=Commands)
    queues: dict[str, Queue] = Field(default_factory=dict)
    retry: RetryDefaults = Field(default_factory=RetryDefaults)
    types: dict[str, TypeOverride] = Field(default_factory=dict)
    schedules: dict[str, Schedule] = Field(default_factory=dict)
    wakeups: Wakeups = Field(default_factory=Wakeups)
    http: Http = Field(default_factory=Http)
    log: Log = Field(default_factory=Log)
    history: History = Field(default_factory=History)
    upkeep: Upkeep = Field(default_factory=Upkeep)

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from `load` only: `Settings()` never reads the environment by surprise."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @classmethod
    def merged(cls, values: Mapping[str, Any], sources: Mapping[str, str]) -> Self:
        """Validate merged values, remembering where each dotted key came from.

        Raises `pydantic.ValidationError`, which `load` turns into readable problems.
        """
        settings = cls(**values)
        settings._sources = dict(sources)
        return settings

    @model_validator(mode="after")
    def _event_timeout_fits_transaction(self) -> Self:
        if self.events.timeout >= self.database.idle_in_transaction_timeout:
            raise ValueError(
                "events.timeout must be shorter than database.idle_in_transaction_timeout, "
                "or the server ends the page before the handler's time is up"
            )
        return self

    @model_validator(mode="after")
    def _pooler_cannot_listen(self) -> Self:
        if self.database.transaction_pooler and self.wakeups.mode != "off":
            raise ValueError(
                'database.transaction_pooler needs wakeups.mode = "off": a pooler in transaction '
                "mode cannot pass notifications on"
            )
        return self

    def source_of(self, key: str) -> str:
        """Name the place that gave a dotted key its value, `"default"` if none did."""
        return self._sources.get(key, "default")
