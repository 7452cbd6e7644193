"""The resources of a test: its values replace the values that the plugin's lifespans yield.

Promises that no lifespan is opened, and that a missing value, or a value that no lifespan yields,
is a mistake of the test: an error, never an outcome of the handler.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inboxd.api.functions import full_name
from inboxd.api.middleware import Middleware
from inboxd.api.records import Handler
from inboxd.api.resources import Dependent
from inboxd.engine.resources import Resources
from inboxd.errors import UsageError
from inboxd.registry.registry import Registry


class GivenResources:
    """Values by the types that handlers take."""

    def __init__(self, registry: Registry, given: Mapping[Any, object] | None) -> None:
        """Check the types. Raises UsageError for a type that no lifespan yields."""
        self._given = dict(given or {})
        known = [each.yields for each in registry.lifespans]
        for type_ in self._given:
            if type_ not in known:
                there = ", ".join(map(full_name, known)) or "none"
                raise UsageError(
                    f"resources= has {full_name(type_)}, which no lifespan of the plugin yields; "
                    f"they yield: {there}."
                )
        self._resources = Resources(given=self._given)

    def bound(self, handler: Handler) -> tuple[Callable[..., Any], Sequence[Middleware]]:
        """The handler's function and its middleware. Raises UsageError for a missing value."""
        for each in (handler, *handler.middleware):
            self._check(each)
        chain = [self._resources.bound(each) for each in handler.middleware]
        return self._resources.bound(handler), chain

    def _check(self, dependent: Dependent) -> None:
        for name, type_ in dependent.needs.items():
            if type_ not in self._given:
                raise UsageError(
                    f"{dependent.func.__qualname__} takes {name!r}: give the test's own, "
                    f"resources={{{full_name(type_)}: …}}. Lifespans are not opened here."
                )
