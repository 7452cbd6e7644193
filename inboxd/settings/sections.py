"""All settings of one daemon: one frozen model a section, one section a room.

Owns how the sections stand together; `config.example.toml` and `docs/settings.md` are held against
these models by a test. Promises that an instance is consistent: contradictions between settings are
refused here, not found at 3 a.m. Known limit: what only the plugins know is checked when they are
loaded.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Self

from pydantic import Field, PrivateAttr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from inboxd.settings.database import Database
from inboxd.settings.faces import Http, Log
from inboxd.settings.lanes import Queue, RetryDefaults, Schedule, Topic, TypeOverride
from inboxd.settings.maintenance import Dedup, History, Maintenance
from inboxd.settings.processing import Commands, Events, Unhandled, Wakeups, Worker


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
    topics: dict[str, Topic] = Field(default_factory=dict)
    queues: dict[str, Queue] = Field(default_factory=dict)
    retry: RetryDefaults = Field(default_factory=RetryDefaults)
    types: dict[str, TypeOverride] = Field(default_factory=dict)
    schedules: dict[str, Schedule] = Field(default_factory=dict)
    wakeups: Wakeups = Field(default_factory=Wakeups)
    http: Http = Field(default_factory=Http)
    log: Log = Field(default_factory=Log)
    history: History = Field(default_factory=History)
    dedup: Dedup = Field(default_factory=Dedup)
    maintenance: Maintenance = Field(default_factory=Maintenance)

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
    def _nothing_contradicts(self) -> Self:
        if found := [*self._contradictions()]:
            raise ValueError("\n".join(found))
        return self

    def _contradictions(self) -> Iterator[str]:
        """What one section says against another: all of it."""
        if self.events.timeout >= self.database.idle_in_transaction_timeout:
            yield (
                "events.timeout must be shorter than database.idle_in_transaction_timeout, "
                "or the server ends the page before the handler's time is up"
            )
        connections, lists = self.database.pool_size, self.events.lists
        if connections <= lists:
            yield (
                f"database.pool_size ({connections}) must be larger than events.lists ({lists}), "
                "or lists that run for long leave no connection to claim and settle anything else; "
                "raise database.pool_size, or lower events.lists"
            )
        if self.database.transaction_pooler and self.wakeups.mode != "off":
            yield (
                'database.transaction_pooler needs wakeups.mode = "off": a pooler in transaction '
                "mode cannot pass notifications on"
            )
        yield from self._kept_longer_than_their_tables()

    def _kept_longer_than_their_tables(self) -> Iterator[str]:
        tables = (self.history.events, self.history.commands)
        longest = None if None in tables else max(filter(None, tables))
        for name, one in self.types.items():
            if one.retention is None:
                continue
            if one.retention < timedelta(days=1):
                yield f"types.{name}.retention must be a day at least"
            if longest is not None and one.retention > longest:
                yield (
                    f"types.{name}.retention is longer than history.events and history.commands: "
                    "days go as a whole, so a type may be kept for less, but not for longer; raise "
                    f"those ({longest.days} days is the longer now), or set history.export"
                )

    def unhandled(self, type_: str) -> Unhandled:
        """What becomes of events of a type while no living worker handles them."""
        own = self.types.get(type_)
        return (own and own.unhandled) or self.events.unhandled

    def source_of(self, key: str) -> str:
        """Name the place that gave a dotted key its value, `"default"` if none did."""
        return self._sources.get(key, "default")
