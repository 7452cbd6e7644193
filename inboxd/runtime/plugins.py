"""Which handlers there are: found through entry points, checked together, found again by type.

Owns the registry. Promises: everything wrong with the plugins is one PluginError that lists each
problem with its distribution and entry point; a registry never changes, so a reload makes another.
Known limit: a plugin's import runs the plugin's code; one that never returns is not seen.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from inboxd.api.context import Route
from inboxd.api.handlers import Handlers
from inboxd.api.records import CommandHandler, EventHandler, Handler
from inboxd.api.schedules import Schedule, ScheduleDeclaration, checked
from inboxd.errors import InboxdError, PluginError, SettingsError, UsageError
from inboxd.model.backoff import Policy, override, policy_from
from inboxd.runtime.scheduling import scheduled
from inboxd.settings import Settings, TypeOverride

GROUP = "inboxd.handlers"

Source = tuple[str, Handlers]


@dataclass(frozen=True, slots=True)
class Registry:
    """All handlers by type; several may take one event type, exactly one a command type."""

    events: Mapping[str, tuple[EventHandler, ...]]
    commands: Mapping[str, CommandHandler]
    models: Mapping[type[object], tuple[str, ...]]
    schedules: tuple[ScheduleDeclaration, ...] = ()

    @property
    def event_types(self) -> list[str]:
        """The event types that this worker takes, sorted."""
        return sorted(self.events)

    @property
    def command_types(self) -> list[str]:
        """The command types that this worker takes, sorted."""
        return sorted(self.commands)

    @property
    def queues(self) -> list[str]:
        """The queues that the declared commands go to, sorted."""
        return sorted({handler.queue for handler in self.commands.values()})

    def declared(self) -> list[str]:
        """What this worker can do, for comparing workers: a line for each type, sorted."""
        events = (
            f"event {handler.type} {handler.name} {handler.schema_version}"
            for handlers in self.events.values()
            for handler in handlers
        )
        commands = (
            f"command {handler.type} {handler.queue} {handler.schema_version}"
            for handler in self.commands.values()
        )
        return sorted([*events, *commands])

    def resolve(self, payload: type[object] | str) -> Route:
        """Where a command goes, by its payload's class or its type's name.

        A type that is not declared here is another worker's business: its queue is then found by
        the database. Raises UsageError for a class that names no one command.
        """
        handler = self.commands.get(payload if isinstance(payload, str) else self._only(payload))
        if handler is not None:
            return Route(handler.type, handler.queue, handler.schema_version, handler.priority)
        return Route(str(payload))

    def command_of(self, handler: EventHandler) -> CommandHandler:
        """The command that runs an event handler declared with `as_command`."""
        return self.commands[handler.command_type or ""]

    def schedule(self, declared: ScheduleDeclaration) -> Schedule:
        """What a declared schedule leads to here. Raises UsageError."""
        versions = {
            type_: min(handler.schema_version for handler in handlers)
            for type_, handlers in self.events.items()
        }
        return checked(declared, self.resolve, versions, self.commands)

    def _only(self, model: type[object]) -> str:
        types = self.models.get(model, ())
        if len(types) == 1:
            return types[0]
        name = model.__qualname__
        if types:
            raise UsageError(f"{name} is the payload of {', '.join(types)}: say which with type=.")
        raise UsageError(f"No command handler takes {name}: declare one, or name the type, type=….")


def load_plugins(only: Collection[str] = ()) -> Registry:
    """The registry of the installed plugins, or of the entry points named in `only`.

    Raises PluginError with every problem.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    names = [point.name for point in points]
    problems = [
        f"plugins = [{name!r}]: no such entry point in the group {GROUP!r}{_hint(name, names)}"
        for name in only
        if name not in names
    ]
    sources: list[Source] = []
    for point in points:
        if not only or point.name in only:
            _load(point, sources, problems)
    return build_registry(sources, problems)


def build_registry(sources: Iterable[Source], problems: Iterable[str] = ()) -> Registry:
    """Put the handlers of all sources together; raises PluginError with every problem.

    `problems` are those that were found on the way here.
    """
    found = list(problems)
    events: dict[str, tuple[EventHandler, ...]] = {}
    commands: dict[str, CommandHandler] = {}
    owners: dict[tuple[str, str], str] = {}
    schedules: list[tuple[str, ScheduleDeclaration]] = []
    for source, handlers in sources:
        declared = handlers.build()
        found += [f"{source}: {problem}" for problem in declared.problems]
        for event in declared.events:
            found += _claim(owners, (event.type, event.name), event, source)
            events[event.type] = (*events.get(event.type, ()), event)
        for command in declared.commands:
            found += _claim(owners, (command.type, "command"), command, source)
            commands[command.type] = command
        schedules += [(source, each) for each in declared.schedules]
    registry = _registry(events, commands, [each for _, each in schedules])
    found += _schedule_problems(registry, schedules)
    if found:
        raise PluginError("\n- ".join([f"Problems with plugins ({len(found)}):", *found]))
    return registry


def apply_overrides(
    registry: Registry, types: Mapping[str, TypeOverride], default: Policy
) -> Registry:
    """The registry with `[types."…"]` of the settings laid over it: timeout, retry, queue.

    A handler without a policy gets its changes laid over `default`. Raises SettingsError with
    every type and key that does not fit.
    """
    events, commands = dict(registry.events), dict(registry.commands)
    problems = []
    for type_, changes in types.items():
        try:
            if type_ not in events and type_ not in commands:
                hint = _hint(type_, [*events, *commands])
                raise UsageError(f"no plugin declares this type{hint}")  # noqa: TRY301 - as others
            if type_ in events:
                events[type_] = tuple(_event(each, changes, default) for each in events[type_])
            if type_ in commands:
                commands[type_] = _command(commands[type_], changes, default)
        except UsageError as error:
            problems.append(f'[types."{type_}"]: {error}')
    if problems:
        raise SettingsError("\n".join(problems))
    return _registry(events, commands, registry.schedules)


def default_policy(settings: Settings) -> Policy:
    """The policy of handlers that declare none; what `[retry]` leaves out is as the kind has it."""
    try:
        return policy_from(settings.retry.model_dump(exclude_unset=True))
    except UsageError as error:
        raise SettingsError(f"[retry]: {error}") from error


def load_registry(settings: Settings) -> Registry:
    """The installed plugins as the settings want them. Raises PluginError or SettingsError."""
    registry = load_plugins(settings.worker.plugins)
    registry = apply_overrides(registry, settings.types, default_policy(settings))
    _check_timeouts(settings, registry)
    scheduled(registry, settings.schedules)
    return registry


def _check_timeouts(settings: Settings, registry: Registry) -> None:
    """An event handler runs inside a transaction, which the server ends when it idles too long."""
    most = settings.database.idle_in_transaction_timeout.total_seconds()
    slow = [
        f"{handler.name} ({handler.timeout:g} s)"
        for handlers in registry.events.values()
        for handler in handlers
        if handler.timeout is not None and handler.timeout >= most and handler.command_type is None
    ]
    if slow:
        raise SettingsError(
            f"event handlers with a timeout of {most:g} s or more: {', '.join(slow)}; make them "
            "commands (as_command=True), or raise database.idle_in_transaction_timeout"
        )


def _registry(
    events: Mapping[str, tuple[EventHandler, ...]],
    commands: Mapping[str, CommandHandler],
    schedules: Iterable[ScheduleDeclaration],
) -> Registry:
    models: dict[type[object], tuple[str, ...]] = {}
    for handler in commands.values():
        if handler.payload_type is not None:
            types = models.get(handler.payload_type, ())
            models[handler.payload_type] = (*types, handler.type)
    return Registry(
        MappingProxyType(dict(events)),
        MappingProxyType(dict(commands)),
        MappingProxyType(models),
        tuple(schedules),
    )


def _schedule_problems(
    registry: Registry, schedules: Iterable[tuple[str, ScheduleDeclaration]]
) -> Iterator[str]:
    """What is wrong with the schedules of plugins, now that all handlers are known."""
    seen = set()
    for source, declared in schedules:
        try:
            registry.schedule(declared)
            if declared.name in seen:
                raise UsageError("it is declared twice: keep one.")
        except InboxdError as error:
            yield f"{source}: schedule {declared.name!r}: {error}"
        seen.add(declared.name)


def _load(point: EntryPoint, sources: list[Source], problems: list[str]) -> None:
    """Import what the entry point names into `sources`, or say in `problems` why not."""
    dist = point.dist
    name = f"{dist.name} {dist.version}" if dist else "unknown distribution"
    origin = f"{name}, entry point {point.name} = {point.value}"
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's import may do anything
        problems.append(f"{origin}: import failed: {type(error).__name__}: {error}{_at(error)}.")
        return
    if isinstance(loaded, Handlers):
        sources.append((origin, loaded))
    else:
        kind = type(loaded).__name__
        problems.append(f"{origin}: it names a {kind}: let it name the plugin's Handlers object.")


def _at(error: BaseException) -> str:
    """Where in the plugin its import failed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "importlib" not in each.filename]
    return f" ({own[-1].filename}:{own[-1].lineno})" if own else ""


def _claim(
    owners: dict[tuple[str, str], str], key: tuple[str, str], handler: Handler, source: str
) -> list[str]:
    """Note who declares `key`; the problem, if somebody did before."""
    claimant = f"{handler.name} of {source}"
    if key in owners:
        owner = owners[key]
        return [f"{handler.type!r} is declared by {owner}, and again by {claimant}: keep one."]
    owners[key] = claimant
    return []


def _event(handler: EventHandler, changes: TypeOverride, default: Policy) -> EventHandler:
    if changes.queue is not None:
        raise UsageError(f"queue: an event type has none{_carried(handler)}.")
    timeout, retry = _merged(handler, changes, default)
    return dataclasses.replace(handler, timeout=timeout, retry=retry)


def _command(handler: CommandHandler, changes: TypeOverride, default: Policy) -> CommandHandler:
    timeout, retry = _merged(handler, changes, default)
    queue = changes.queue or handler.queue
    return dataclasses.replace(handler, timeout=timeout, retry=retry, queue=queue)


def _merged(
    handler: Handler, changes: TypeOverride, default: Policy
) -> tuple[float | None, Policy | None]:
    """The handler's timeout and policy after the changes."""
    timeout, retry = handler.timeout, handler.retry
    if changes.timeout is not None:
        timeout = changes.timeout.total_seconds()
    if changes.retry is not None:
        retry = override(retry or default, changes.retry)
    return timeout, retry


def _carried(handler: EventHandler) -> str:
    return f"; set it for {handler.command_type!r}" if handler.command_type else ""


def _hint(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(sorted(known))}." if known else "; no plugin is installed."
