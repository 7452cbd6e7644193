"""The declarations of each installed plugin, read separately, so that a broken one hides no other.

For people (`inboxd plugins`). Known limit: conflicts between plugins are not seen here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from inboxd.api.functions import full_name, name_of
from inboxd.api.records import CommandHandler, EventHandler, Handler
from inboxd.api.resources import Dependent
from inboxd.api.topics import DEFAULT
from inboxd.errors import PluginError
from inboxd.model.entry_points import origin
from inboxd.registry.plugins import GROUP, build_registry, judged, load
from inboxd.registry.registry import Registry
from inboxd.registry.retry_rules import declared_rules
from inboxd.settings import Settings


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """registry: the plugin's own declarations; None: see error. taken: a worker loads it."""

    name: str
    distribution: str
    entry_point: str
    taken: bool
    registry: Registry | None = None
    error: str | None = None


def installed(settings: Settings) -> list[InstalledPlugin]:
    """All plugins of this environment by name, also plugins that the settings do not load."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [_look(point, settings) for point in points]


def handlers(plugin: InstalledPlugin, settings: Settings) -> Iterator[dict[str, Any]]:
    """The plugin's handlers as JSON values, by kind and type; timeouts are in seconds."""
    if plugin.registry is None:
        return
    rules = declared_rules(settings, plugin.registry)
    found: list[tuple[str, EventHandler | CommandHandler]] = [
        ("event", each) for _, some in sorted(plugin.registry.events.items()) for each in some
    ]
    found += [("command", each) for _, each in sorted(plugin.registry.commands.items())]
    for kind, each in found:
        is_chunk = isinstance(each, EventHandler) and each.chunks
        default = settings.events.timeout if kind == "event" else settings.commands.timeout
        timeout = None if is_chunk else default.total_seconds()
        rule = next(r for r in rules[kind, each.type] if r["handler"] == each.name)
        yield {
            "kind": "chunk" if is_chunk else kind,
            "type": each.type,
            "topic": (each.topic or DEFAULT) if isinstance(each, EventHandler) else None,
            "queue": each.queue if isinstance(each, CommandHandler) else None,
            "handler": each.name,
            "schema_version": each.schema_version,
            "timeout": timeout if each.timeout is None else each.timeout,
            "executor": each.executor,
            "retry": {"policy": rule["policy"], "source": rule["source"]},
        }


def topics(plugin: InstalledPlugin) -> list[dict[str, Any]]:
    registry = plugin.registry
    if registry is None:
        return []
    names = {topic for topic, _ in registry.subscriptions}
    names |= {each.name for each in registry.declared_topics}
    known = registry.topics
    return [
        {"topic": name, "mode": known[name].mode if name in known else "single"}
        for name in sorted(names)
    ]


def schedules(plugin: InstalledPlugin) -> list[dict[str, Any]]:
    """The schedules that the plugin declares, as they are sent."""
    if plugin.registry is None:
        return []
    own = {each.name for each in plugin.registry.schedules}
    return [
        {"schedule": each.name, "cron": each.cron, "zone": each.zone, "sends": each.type}
        for each in plugin.registry.to_send
        if each.name in own
    ]


def resources(plugin: InstalledPlugin) -> list[dict[str, Any]]:
    """The resources of the plugin's lifespans, in order, and the functions that take each."""
    registry = plugin.registry
    if registry is None:
        return []
    handlers: list[Handler] = [*registry.commands.values()]
    handlers += [each for found in registry.events.values() for each in found]
    around = [each for handler in handlers for each in handler.middleware]
    functions: list[Dependent] = [*registry.lifespans, *registry.hooks, *handlers, *around]
    return [
        {
            "resource": full_name(each.yields),
            "lifespan": each.name,
            "timeout": each.timeout,
            "taken_by": sorted(
                {name_of(one.func) for one in functions if each.yields in one.needs.values()}
            ),
        }
        for each in registry.lifespans
    ]


def hooks(plugin: InstalledPlugin) -> list[dict[str, Any]]:
    found = () if plugin.registry is None else plugin.registry.hooks
    return [{"hook": each.moment, "function": each.name} for each in found]


def _look(point: EntryPoint, settings: Settings) -> InstalledPlugin:
    only = settings.worker.plugins
    registry, error = None, None
    try:
        registry, _ = judged(build_registry([load(point)]), settings, whole=False)
    except PluginError as problem:
        listed = str(problem).partition("\n- ")[2] or str(problem)
        error = listed.replace(f"{origin(point)}: ", "").replace("\n- ", "\n")
    dist = point.dist
    return InstalledPlugin(
        point.name,
        f"{dist.name} {dist.version}" if dist else "unknown distribution",
        f"{point.name} = {point.value}",
        not only or point.name in only,
        registry,
        error,
    )
