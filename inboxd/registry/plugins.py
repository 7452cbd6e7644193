"""The handlers of plugins: found through entry points, and checked together.

All problems are one PluginError. Known limit: an import that never returns is not detected. *See:*
`registry`, the result; `inboxd.outbound.plugin`, the built-in handlers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import NoneType

from inboxd.api.handlers import Handlers
from inboxd.api.hooks import Hook
from inboxd.api.records import CommandHandler, EventHandler, Handler
from inboxd.api.resources import Lifespan
from inboxd.api.schedules import ScheduleDeclaration
from inboxd.api.topics import DEFAULT, TopicDeclaration
from inboxd.errors import InboxdError, PluginError, SettingsError, UsageError
from inboxd.model.backoff import Policy, override, policy_from
from inboxd.model.entry_points import origin, why
from inboxd.model.spelling import did_you_mean
from inboxd.outbound.plugin import built_in
from inboxd.registry.breakers import with_breakers
from inboxd.registry.chunk_handlers import misfits
from inboxd.registry.known_settings import judgeable
from inboxd.registry.message_sources import check_message_sources
from inboxd.registry.problems import noted, refuse
from inboxd.registry.registry import Registry, make_registry
from inboxd.registry.relays import with_relays
from inboxd.registry.schedules import with_schedules
from inboxd.registry.topics import check_topics, with_topics
from inboxd.resilience.rules import BreakerRules
from inboxd.settings import Reading, Settings, TypeOverride

GROUP = "inboxd.handlers"

Source = tuple[str, Handlers]


def load_plugins(only: Collection[str] = ()) -> Registry:
    """only: names of entry points; empty: all. Raises PluginError with every problem."""
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
            try:
                sources.append(load(point))
            except PluginError as error:
                problems.append(str(error))
    return build_registry(sources, problems)


def build_registry(sources: Iterable[Source], problems: Iterable[str] = ()) -> Registry:
    """problems: found before. Raises PluginError with every problem."""
    found = list(problems)
    events: dict[str, tuple[EventHandler, ...]] = {}
    commands: dict[str, CommandHandler] = {}
    owners: dict[tuple[str, str], str] = {}
    schedules: list[tuple[str, ScheduleDeclaration]] = []
    topics: list[tuple[str, TopicDeclaration]] = []
    lifespans: list[Lifespan] = []
    hooks: list[Hook] = []
    breakers: dict[str, BreakerRules] = {}
    for source, handlers in sources:
        declared = handlers.build()
        found += [f"{source}: {problem}" for problem in declared.problems]
        for event in declared.events:
            found += _claim(owners, (event.type, f"{event.topic} {event.name}"), event, source)
            events[event.type] = (*events.get(event.type, ()), event)
        for command in declared.commands:
            found += _claim(owners, (command.type, "command"), command, source)
            commands[command.type] = command
        schedules += [(source, each) for each in declared.schedules]
        topics += [(source, each) for each in declared.topics]
        found += _shared_resources(source, declared.lifespans, lifespans)
        lifespans += declared.lifespans
        hooks += declared.hooks
        found += [
            f"{source}: another plugin declares the breaker {name!r}: keep one."
            for name in declared.breakers
            if name in breakers
        ]
        breakers |= declared.breakers
    checked_topics, problems_of_topics = check_topics(topics)
    found += problems_of_topics
    registry = make_registry(
        events,
        commands,
        schedules=[each for _, each in schedules],
        declared_topics=[each for _, each in topics],
        topics=checked_topics,
    )
    found += _schedule_problems(registry, schedules)
    if found:
        raise PluginError("\n- ".join([f"Problems with plugins ({len(found)}):", *found]))
    return dataclasses.replace(
        registry, lifespans=tuple(lifespans), hooks=tuple(hooks), breakers=breakers
    )


def with_built_in(plugins: Registry, settings: Settings, problems: list[str]) -> Registry:
    own: Registry | None = None
    with noted(problems, "[targets]"):
        handlers = built_in(settings)
        own = None if handlers is None else build_registry([("inboxd", handlers)])
    if own is None:
        return plugins
    taken = sorted(plugins.commands.keys() & own.commands.keys())
    problems += [f"[targets]: a plugin declares {each!r}, which is built in." for each in taken]
    merged = plugins.changed(
        plugins.events, {**own.commands, **plugins.commands}, plugins.topics.values()
    )
    return dataclasses.replace(merged, lifespans=(*own.lifespans, *plugins.lifespans))


def with_types(
    registry: Registry,
    types: Mapping[str, TypeOverride],
    default: Policy,
    problems: list[str],
) -> Registry:
    """The changes to a handler without a policy are laid over `default`."""
    events, commands = dict(registry.events), dict(registry.commands)
    for type_, changes in types.items():
        with noted(problems, f'[types."{type_}"]'):
            if changes.model_fields_set == {"unhandled"} and type_ not in commands:
                continue  # usually for a type without a handler
            if type_ not in events and type_ not in commands:
                hint = _hint(type_, [*events, *commands])
                raise UsageError(f"no plugin declares this type{hint}")
            if changes.unhandled is not None and type_ not in events:
                raise UsageError("unhandled: it is for event types.")
            if type_ in events:
                events[type_] = tuple(_event(each, changes, default) for each in events[type_])
            if type_ in commands:
                commands[type_] = _command(commands[type_], changes, default)
    return registry.changed(events, commands, registry.topics.values())


def default_policy(settings: Settings) -> Policy:
    """The policy of handlers that declare none; its kind gives the values that `[retry]` lacks."""
    try:
        return policy_from(settings.retry.model_dump(exclude_unset=True))
    except UsageError as error:
        raise SettingsError(f"[retry]: {error}") from error


def load_registry(settings: Settings) -> Registry:
    """The installed plugins with the settings applied. Raises PluginError or SettingsError."""
    return configured(load_plugins(settings.worker.plugins), settings)


def accepted(reading: Reading, plugins: Registry | None = None) -> Settings:
    """Raises SettingsError with all problems, also with those that only the plugins reveal."""
    if not reading.problems:
        return reading.settings
    shown = _shown(reading.settings, plugins)
    raise SettingsError("\n".join([*reading.problems, *shown]))


def _shown(settings: Settings, plugins: Registry | None) -> list[str]:
    """The problems that the plugins reveal; none if it is unknown which plugins are meant."""
    if plugins is None and not settings.knows("worker", "plugins"):
        return []
    try:
        if plugins is None:
            plugins = load_plugins(settings.worker.plugins)
        return judged(plugins, settings)[1]
    except PluginError as error:
        return [str(error)]


def configured(plugins: Registry, settings: Settings) -> Registry:
    """Raises SettingsError; or PluginError if only plugins conflict with each other."""
    registry, wrong = judged(plugins, settings)
    refuse(wrong)
    return registry


def judged(
    plugins: Registry, settings: Settings, *, whole: bool = True
) -> tuple[Registry, list[str]]:
    """Every problem is returned, but none that may follow from an unknown setting.

    whole: also add the built-in handlers. Raises PluginError if only plugins conflict.
    """
    known = judgeable(settings)
    wrong: list[str] = []
    default = _default_policy(settings, wrong)
    if whole:
        plugins = with_built_in(plugins, known, wrong)
        plugins = with_relays(plugins, known, wrong)
        check_message_sources(known, wrong)
    registry = with_topics(plugins, known.topics, default, wrong)
    # These checks rest on the settings of topics.
    misfits_ = _misfits(registry) if settings.knows("topics") and not wrong else []
    registry = with_types(registry, known.types, default, wrong)
    _check_timeouts(settings, registry, wrong)
    registry = with_breakers(registry, known.breakers, known.all_queues, wrong)
    registry = with_schedules(registry, known.schedules, wrong)
    topics = [name for name in settings.worker.topics if settings.knows("topics", name)]
    registry = serving(registry, topics, wrong, declared=settings.topics)
    if misfits_ and not wrong:
        raise PluginError("\n- ".join([f"Problems with plugins ({len(misfits_)}):", *misfits_]))
    return registry, [*wrong, *misfits_]


def serving(
    registry: Registry,
    topics: Collection[str],
    problems: list[str],
    *,
    declared: Collection[str] = (),
) -> Registry:
    """topics: empty: all. declared: topics that have settings, though perhaps invalid ones."""
    known = {DEFAULT, *registry.topics, *declared, *(topic for topic, _ in registry.in_topics)}
    problems += [
        f"worker.topics: nothing declares the topic {name!r}{_hint(name, known)} A topic of no "
        f'plugin is declared by [topics."{name}"].'
        for name in topics
        if name not in known
    ]
    return registry.serving(topics)


def _default_policy(settings: Settings, problems: list[str]) -> Policy:
    if not settings.knows("retry"):
        return policy_from({})  # of the kind that accepts every override
    try:
        return default_policy(settings)
    except SettingsError as error:
        problems.append(str(error))
        return policy_from({})


def _misfits(registry: Registry) -> list[str]:
    handlers = [each for found in registry.events.values() for each in found]
    declared = sorted({each.name for each in registry.declared_topics})
    return [*misfits(handlers, registry.topics, declared)]


def _check_timeouts(settings: Settings, registry: Registry, problems: list[str]) -> None:
    """Refuse event timeouts that exceed the server's limit for idle transactions."""
    if not settings.knows("database", "idle_in_transaction_timeout"):
        return
    most = settings.database.idle_in_transaction_timeout.total_seconds()
    slow = [
        f"{handler.name} ({handler.timeout:g} s)"
        for type_, handlers in registry.events.items()
        for handler in handlers
        if settings.knows("types", type_, "timeout")
        and handler.timeout is not None
        and handler.timeout >= most
        and handler.command_type is None
        and not handler.chunks  # their transactions have another limit
    ]
    if slow:
        problems.append(
            f"event handlers with a timeout of {most:g} s or more: {', '.join(slow)}; make them "
            "commands (as_command=True), or raise database.idle_in_transaction_timeout"
        )


def _shared_resources(
    source: str, lifespans: Iterable[Lifespan], before: Iterable[Lifespan]
) -> Iterator[str]:
    """Resources of the same type in two plugins of one name, which would be ambiguous."""
    owners = {(each.plugin, each.yields): each.name for each in before}
    for each in lifespans:
        owner = owners.get((each.plugin, each.yields))
        if owner is not None and each.yields is not NoneType:
            yield (
                f"{source}: {each.name} yields what {owner} does, and both are of a plugin called "
                f"{each.plugin!r}: give one of the two another name, Handlers(…)."
            )


def _schedule_problems(
    registry: Registry, schedules: Iterable[tuple[str, ScheduleDeclaration]]
) -> Iterator[str]:
    """The problems of plugins' schedules, with all handlers known."""
    seen = set()
    for source, declared in schedules:
        try:
            registry.schedule(declared)
            if declared.name in seen:
                raise UsageError("it is declared twice: keep one.")
        except InboxdError as error:
            yield f"{source}: schedule {declared.name!r}: {error}"
        seen.add(declared.name)


def load(point: EntryPoint) -> Source:
    """The handlers of an entry point, with its origin. Raises PluginError."""
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        told = f"{origin(point)}: import failed: {why(error, point.module)}"
        raise PluginError(told) from error
    if isinstance(loaded, Handlers):
        return origin(point), loaded
    kind = type(loaded).__name__
    raise PluginError(
        f"{origin(point)}: it names a {kind}: it must name the plugin's Handlers object."
    )


def _claim(
    owners: dict[tuple[str, str], str], key: tuple[str, str], handler: Handler, source: str
) -> list[str]:
    """Note the owner of `key`; returns a problem if it has one already."""
    claimant = f"{handler.name} of {source}"
    if key in owners:
        owner = owners[key]
        return [f"{handler.type!r} is declared by {owner}, and again by {claimant}: keep one."]
    owners[key] = claimant
    return []


def _event(handler: EventHandler, changes: TypeOverride, default: Policy) -> EventHandler:
    if changes.queue is not None:
        raise UsageError(f"queue: an event type has no queue{_carried(handler)}.")
    timeout, retry = _merged(handler, changes, default)
    return dataclasses.replace(handler, timeout=timeout, retry=retry)


def _command(handler: CommandHandler, changes: TypeOverride, default: Policy) -> CommandHandler:
    timeout, retry = _merged(handler, changes, default)
    queue = changes.queue or handler.queue
    return dataclasses.replace(handler, timeout=timeout, retry=retry, queue=queue)


def _merged(
    handler: Handler, changes: TypeOverride, default: Policy
) -> tuple[float | None, Policy | None]:
    timeout, retry = handler.timeout, handler.retry
    if changes.timeout is not None:
        timeout = changes.timeout.total_seconds()
    if changes.retry is not None:
        retry = override(retry or default, changes.retry)
    return timeout, retry


def _carried(handler: EventHandler) -> str:
    return f"; set it for {handler.command_type!r}" if handler.command_type else ""


def _hint(name: str, known: Collection[str]) -> str:
    if found := did_you_mean(name, known):
        return found
    return f"; known: {', '.join(sorted(known))}." if known else "; no plugin is installed."
