"""The registry: the known handlers, and how topics are processed.

A registry never changes, so a reload makes a new one. Other workers' declarations are unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from inboxd.api.hooks import Hook
from inboxd.api.records import ChunkHandler, CommandHandler, EventHandler
from inboxd.api.resources import Lifespan
from inboxd.api.routes import EventRoute, Route, command_route, event_route
from inboxd.api.schedules import Schedule, ScheduleDeclaration, checked
from inboxd.api.topics import DEFAULT, Topic, TopicDeclaration
from inboxd.registry.chunk_handlers import gather
from inboxd.resilience.rules import BreakerRules


@dataclass(frozen=True, slots=True)
class Registry:
    """An event type may have several handlers, a command type has exactly one.

    in_topics: the handlers that name a topic; anywhere: all others. models, event_models: by
    payload class. topics: declared; others are `single`. relays: topics whose events are published.
    only: the topics that this worker serves; empty: all. to_send: schedules with settings applied.
    """

    events: Mapping[str, tuple[EventHandler, ...]]
    commands: Mapping[str, CommandHandler]
    models: Mapping[type[object], tuple[str, ...]]
    schedules: tuple[ScheduleDeclaration, ...]
    declared_topics: tuple[TopicDeclaration, ...]
    topics: Mapping[str, Topic]
    in_topics: Mapping[tuple[str, str], tuple[EventHandler, ...]]
    anywhere: Mapping[str, tuple[EventHandler, ...]]
    chunks: Mapping[str, ChunkHandler]
    event_models: Mapping[type[object], tuple[EventRoute, ...]]
    relays: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    to_send: tuple[Schedule, ...] = ()
    lifespans: tuple[Lifespan, ...] = ()
    hooks: tuple[Hook, ...] = ()
    breakers: Mapping[str, BreakerRules] = field(default_factory=dict)

    def changed(
        self,
        events: Mapping[str, tuple[EventHandler, ...]],
        commands: Mapping[str, CommandHandler],
        topics: Iterable[Topic],
    ) -> Registry:
        made = make_registry(
            events,
            commands,
            schedules=self.schedules,
            declared_topics=self.declared_topics,
            topics=topics,
        )
        return replace(made, lifespans=self.lifespans, hooks=self.hooks, breakers=self.breakers)

    def serving(self, topics: Iterable[str]) -> Registry:
        """Restrict the registry to these topics; empty: all."""
        only = frozenset(topics)
        chunks = {name: each for name, each in self.chunks.items() if not only or name in only}
        relays = self.relays & only if only else self.relays
        return replace(self, only=only, chunks=MappingProxyType(chunks), relays=relays)

    def takes(self, topic: str) -> bool:
        return not self.only or topic in self.only

    def handlers_of(self, topic: str, type_: str) -> tuple[EventHandler, ...]:
        """The handlers here of a type's events in a topic; may be empty."""
        if not self.takes(topic):
            return ()
        found = self.in_topics.get((topic, type_))
        if found is None and topic not in self.chunks and topic not in self.relays:
            found = self.anywhere.get(type_)
        return found or ()

    @property
    def subscriptions(self) -> list[tuple[str, str]]:
        """The (topic, type) pairs of all handlers, for events without a topic, sorted."""
        found = {(each.topic or DEFAULT, each.type) for one in self.events.values() for each in one}
        return sorted(found)

    @property
    def event_types(self) -> list[str]:
        return sorted(self.events)

    @property
    def command_types(self) -> list[str]:
        return sorted(self.commands)

    @property
    def queues(self) -> list[str]:
        return sorted({handler.queue for handler in self.commands.values()})

    @property
    def breaker_uses(self) -> list[tuple[str, str | None]]:
        """Each breaker that is declared or needed here, with its users; None: it is declared."""
        uses: set[tuple[str, str | None]] = {(name, None) for name in self.breakers}
        for command in self.commands.values():
            if command.breaker is not None:
                uses.add((command.breaker, f"command {command.type}"))
        for event in (each for found in self.events.values() for each in found):
            if event.breaker is not None and event.command_type is None:
                uses.add((event.breaker, f"event {event.type}"))
                uses.add((event.breaker, f"topic {event.topic or DEFAULT}"))
        return sorted(uses, key=lambda use: (use[0], use[1] or ""))

    def declared(self) -> list[str]:
        """This worker's abilities, for comparing workers: a line for each type, sorted."""
        events = (
            f"event {handler.type} {handler.name} {handler.schema_version} {handler.topic or ''}"
            for handlers in self.events.values()
            for handler in handlers
        )
        commands = (
            f"command {handler.type} {handler.queue} {handler.schema_version}"
            for handler in self.commands.values()
        )
        return sorted([*events, *commands])

    def resolve(self, payload: type[object] | str, /) -> Route:
        """For an undeclared type, the database finds the queue. Raises UsageError."""
        if isinstance(payload, str):
            route = Route(payload)
        else:
            types = self.models.get(payload, ())
            route = Route(types[0]) if len(types) == 1 else command_route(payload, types)
        handler = self.commands.get(route.type)
        if handler is not None:
            return Route(handler.type, handler.queue, handler.schema_version, handler.priority)
        return route

    def resolve_event(self, payload: type[object] | str, /) -> EventRoute:
        """All handlers here read the version. Raises UsageError unless a class has one type."""
        if not isinstance(payload, str):
            return event_route(payload, self.event_models.get(payload, ()))
        return EventRoute(payload, _version_for(self.events.get(payload, ())))

    def command_of(self, handler: EventHandler) -> CommandHandler:
        """The command that runs an event handler declared with `as_command`."""
        return self.commands[handler.command_type or ""]

    def schedule(self, declared: ScheduleDeclaration) -> Schedule:
        """Check a declared schedule against this registry. Raises UsageError."""
        versions = {type_: _version_for(handlers) for type_, handlers in self.events.items()}
        return checked(declared, self.resolve, versions, self.commands)


def make_registry(
    events: Mapping[str, tuple[EventHandler, ...]],
    commands: Mapping[str, CommandHandler],
    *,
    schedules: Iterable[ScheduleDeclaration] = (),
    declared_topics: Iterable[TopicDeclaration] = (),
    topics: Iterable[Topic] = (),
) -> Registry:
    models: dict[type[object], tuple[str, ...]] = {}
    for handler in commands.values():
        if handler.payload_type is not None:
            types = models.get(handler.payload_type, ())
            models[handler.payload_type] = (*types, handler.type)
    in_topics: dict[tuple[str, str], tuple[EventHandler, ...]] = defaultdict(tuple)
    anywhere: dict[str, tuple[EventHandler, ...]] = defaultdict(tuple)
    for each in (each for found in events.values() for each in found):
        if each.topic is None:
            anywhere[each.type] += (each,)
        else:
            in_topics[each.topic, each.type] += (each,)
    by_name = {topic.name: topic for topic in topics}
    chunks = gather((each for found in events.values() for each in found), by_name)
    return Registry(
        MappingProxyType(dict(events)),
        MappingProxyType(dict(commands)),
        MappingProxyType(models),
        tuple(schedules),
        tuple(declared_topics),
        MappingProxyType(by_name),
        MappingProxyType(dict(in_topics)),
        MappingProxyType(dict(anywhere)),
        MappingProxyType(chunks),
        MappingProxyType(_event_models(events)),
        frozenset(topic.name for topic in by_name.values() if topic.relay),
    )


def _event_models(
    events: Mapping[str, tuple[EventHandler, ...]],
) -> dict[type[object], tuple[EventRoute, ...]]:
    models: dict[type[object], tuple[EventRoute, ...]] = {}
    for type_, handlers in events.items():
        for model in {each.payload_type for each in handlers if each.payload_type is not None}:
            route = EventRoute(type_, _version_for(h for h in handlers if h.payload_type is model))
            models[model] = (*models.get(model, ()), route)
    return models


def _version_for(handlers: Iterable[EventHandler]) -> int:
    """The schema version that all of these handlers can read; a relay publishes any."""
    return min((each.schema_version for each in handlers if not each.relay), default=1)
