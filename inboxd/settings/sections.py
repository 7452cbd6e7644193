"""All settings of one daemon: one frozen model for each section.

`make docs` writes `docs/reference/settings.md`, and the comments of `config.example.toml`, from
these models. Promises that each value of an instance is valid by itself. Known limit:
contradictions between values are refused by `inboxd.settings.load`, not here; rules that depend on
plugins are checked when the plugins are loaded.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import Field, PrivateAttr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from inboxd.settings.admin import Admin
from inboxd.settings.base import Section
from inboxd.settings.breakers import BreakerOverride
from inboxd.settings.brokers import Broker, BrokerName, Relay, RelayName
from inboxd.settings.database import Database
from inboxd.settings.endpoints import Endpoint, EndpointName
from inboxd.settings.inbound import Inbound
from inboxd.settings.labels import Links, TenantNames
from inboxd.settings.maintenance import Dedup, History, Maintenance
from inboxd.settings.notices import Notices
from inboxd.settings.outbound import Outbound, Target, TargetName
from inboxd.settings.overrides import (
    Queue,
    RetryDefaults,
    ScheduleOverride,
    TopicOverride,
    TypeOverride,
)
from inboxd.settings.processing import Commands, Events, Unhandled, Wakeups, Worker
from inboxd.settings.telemetry import Http, Logs

Key = tuple[str, ...]  # the names of tables, and of a setting in the last table

ANY = "*"
NOTHING_KNOWN: Key = ()  # in `unknown` it stands for all settings


class Settings(BaseSettings):
    """All settings of one daemon. Made by `inboxd.settings.load`, which refuses contradictions."""

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
    topics: dict[str, TopicOverride] = Field(default_factory=dict)
    queues: dict[str, Queue] = Field(default_factory=dict)
    retry: RetryDefaults = Field(default_factory=RetryDefaults)
    types: dict[str, TypeOverride] = Field(default_factory=dict)
    schedules: dict[str, ScheduleOverride] = Field(default_factory=dict)
    breakers: dict[str, BreakerOverride] = Field(default_factory=dict)
    endpoints: dict[EndpointName, Endpoint] = Field(default_factory=dict)
    wakeups: Wakeups = Field(default_factory=Wakeups)
    http: Http = Field(default_factory=Http)
    inbound: Inbound = Field(default_factory=Inbound)
    admin: Admin = Field(default_factory=Admin)
    tenants: TenantNames = Field(default_factory=TenantNames)
    links: Links = Field(default_factory=Links)
    outbound: Outbound = Field(default_factory=Outbound)
    targets: dict[TargetName, Target] = Field(default_factory=dict)
    brokers: dict[BrokerName, Broker] = Field(default_factory=dict)
    relays: dict[RelayName, Relay] = Field(default_factory=dict)
    log: Logs = Field(default_factory=Logs)
    history: History = Field(default_factory=History)
    dedup: Dedup = Field(default_factory=Dedup)
    maintenance: Maintenance = Field(default_factory=Maintenance)
    notices: Notices = Field(default_factory=Notices)

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _unknown: frozenset[Key] = PrivateAttr(default_factory=frozenset)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from `load` only, so that `Settings()` does not read the environment."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @classmethod
    def merged(
        cls, values: Mapping[str, Any], sources: Mapping[str, str], unknown: Iterable[Key] = ()
    ) -> Self:
        """Validate merged values; keep the source of each dotted key, and the unknown keys.

        Raises `pydantic.ValidationError`, which `load` turns into readable problems.
        """
        settings = cls(**values)
        database = settings.database
        place = sources.get("database.password")
        database.take_password_from_file(known=place == str(database.password_file))
        settings._sources = dict(sources)
        settings._unknown = frozenset(unknown)
        return settings

    def knows(self, *key: str) -> bool:
        """Whether the value of the setting or table is known: a valid one was given, or none.

        A value that was removed as invalid is unknown: the setting has its default, or is missing.
        `ANY` as a name stands for all tables at its place.
        """
        return not any(
            all(one in (other, ANY) for one, other in zip(key, each, strict=False))
            for each in self._unknown
        )

    @property
    def all_queues(self) -> dict[str, Queue]:
        """The queues that have settings: `[queues]`, laid over the queues of targets."""
        queues = {
            f"http.{name}": each.of_queue(f"http.{name}") for name, each in self.targets.items()
        }
        for name, queue in self.queues.items():
            queues[name] = queue.over(queues[name]) if name in queues else queue
        return queues

    def unhandled(self, type_: str) -> Unhandled:
        """The treatment of a type's events while no living worker handles them."""
        own = self.types.get(type_)
        return (own and own.unhandled) or self.events.unhandled

    def source_of(self, key: str) -> str:
        """The source that gave a dotted key its value, or `"default"`."""
        return self._sources.get(key, "default")

    def places_of(self, table: str, section: Section) -> str:
        """The sources that gave the values of a table; `""` if all are defaults."""
        keys = sorted(f"{table}.{key}" for key in section.model_fields_set)
        sources = dict.fromkeys(self.source_of(key) for key in keys)
        return ", ".join(each for each in sources if each != "default")
