"""Finds the module of a broker's kind; imports only the kinds that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeAlias, cast

from inboxd.brokers.contract import Consumer, Publisher, SeenStream, Stored, StreamPosition
from inboxd.errors import PluginError, UsageError
from inboxd.model.entry_points import origin, why
from inboxd.settings import Broker, MessageSource

GROUP = "inboxd.publishers"

OpenPublisher: TypeAlias = Callable[[str, Broker], Coroutine[Any, Any, Publisher]]
OpenConsumer: TypeAlias = Callable[
    [str, Broker, str, MessageSource, Stored], Coroutine[Any, Any, Consumer]
]

LookAtStreams: TypeAlias = Callable[
    [str, Broker, str, MessageSource, Mapping[str, StreamPosition], int],
    Coroutine[Any, Any, Sequence[SeenStream]],
]

# By kind: the module it needs, that module's package, and inboxd's extra.
_BUILT_IN: Mapping[str, tuple[str, str, str]] = {
    "kafka": ("aiokafka", "aiokafka", "kafka"),
    "nats": ("nats", "nats-py", "nats"),
    "rabbitmq": ("pamqp", "pamqp", "rabbitmq"),
}


def publisher_of(kind: str) -> OpenPublisher:
    """The function that opens a publisher. Raises UsageError or PluginError."""
    if kind in _BUILT_IN:
        return cast("OpenPublisher", _module(kind).open_publisher)
    points = [*entry_points(group=GROUP, name=kind)]
    if not points:
        names = sorted({*_BUILT_IN, *(point.name for point in entry_points(group=GROUP))})
        raise UsageError(f"{kind!r} is not a kind of broker; known: {', '.join(names)}.")
    if len(points) > 1:
        both = " and ".join(sorted(origin(point) for point in points))
        raise PluginError(f"kind {kind!r} is declared by {both}: uninstall one of them.")
    return _of_plugin(points[0])


def consumer_of(kind: str) -> OpenConsumer:
    """The function that opens a consumer. Raises UsageError."""
    if kind not in _BUILT_IN:
        known = ", ".join(sorted(_BUILT_IN))
        raise UsageError(f"messages are not consumed from the kind {kind!r}; known: {known}.")
    return cast("OpenConsumer", _module(kind).open_consumer)


def look_of(kind: str) -> LookAtStreams:
    """Its function looks up a source's streams without consuming. Raises UsageError."""
    consumer_of(kind)
    return cast("LookAtStreams", _module(kind).look_at_streams)


def _module(kind: str) -> ModuleType:
    module, library, extra = _BUILT_IN[kind]
    if find_spec(module) is None:
        raise UsageError(
            f"{kind} needs {library}, which is not installed: pip install 'inboxd[{extra}]'."
        )
    try:
        return import_module(f"inboxd.brokers.{kind}")
    except ImportError as error:
        raise UsageError(
            f"{kind} cannot be used with the {library} that is installed ({error}): "
            f"pip install --upgrade 'inboxd[{extra}]'."
        ) from error


def _of_plugin(point: EntryPoint) -> OpenPublisher:
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        told = why(error, point.module)
        raise PluginError(f"{origin(point)}: import failed: {told}") from error
    if not callable(found):
        kind = type(found).__name__
        raise PluginError(
            f"{origin(point)}: the entry point names a {kind}: it must name an async function that "
            "takes a broker's name and its settings."
        )
    return cast("OpenPublisher", found)
