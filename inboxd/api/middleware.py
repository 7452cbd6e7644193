"""Middleware: code that a plugin wraps around all of its handlers.

Owns the composition. Promises: the middleware that is declared first is the outermost; a plugin
without middleware pays nothing, because its handlers are not wrapped.
Known limit: middleware runs in the event loop, around threads and processes, not inside them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from inboxd.api.connection import BlockingConnection, Connection
from inboxd.api.context import CommandContext, EventContext
from inboxd.api.resources import Needs

AnyContext = (
    EventContext[Connection]
    | EventContext[BlockingConnection]
    | CommandContext[Connection]
    | CommandContext[BlockingConnection]
)


@dataclass(frozen=True, slots=True)
class Call:
    """One execution: the type, the handler's name, the event or command, and its context."""

    type: str
    handler: str
    payload: Any
    context: AnyContext


Proceed = Callable[[], Awaitable[object]]
Middleware = Callable[[Call, Proceed], Awaitable[object]]
Invoke = Callable[[Any, Any], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class DeclaredMiddleware:
    """One middleware of a plugin, and the resources that it takes."""

    plugin: str
    func: Callable[..., Awaitable[object]]
    needs: Needs


def compose(type_: str, handler: str, chain: Sequence[Middleware], invoke: Invoke) -> Invoke:
    """Wrap `invoke(payload, context)` in the chain; without a chain, return `invoke` itself."""
    if not chain:
        return invoke

    async def run(payload: Any, context: AnyContext) -> object:
        call = Call(type_, handler, payload, context)
        proceed: Proceed = partial(invoke, payload, context)
        for middleware in reversed(chain):
            proceed = partial(middleware, call, proceed)
        return await proceed()

    return run
