"""A handler's executor and payload type, read from its signature.

Owns the checks of a declared function. Promises: mistakes that mypy would find are refused at
start, too, with the place and the remedy, because not every author runs mypy.
*See:* `functions`; `resources`, for further parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from inboxd.api.chunks import BlockingEventChunk, EventChunk
from inboxd.api.connection import BlockingConnection, Connection
from inboxd.api.context import CommandContext, EventContext
from inboxd.api.functions import hints_of, shown
from inboxd.api.messages import Event
from inboxd.api.records import Executor
from inboxd.api.resources import Lifespan, Needs, needs_of
from inboxd.errors import UsageError

Takes = Literal["event", "chunk", "command"]


@dataclass(frozen=True, slots=True)
class Signature:
    """Where a handler runs, the annotation of its payload, and the resources that it takes."""

    executor: Executor
    payload: Any
    needs: Needs


def read_signature(
    func: Callable[..., Any],
    *,
    takes: Takes,
    context: type[EventContext[Any] | CommandContext[Any]],
    process: bool,
    offered: Sequence[Lifespan] | None = (),
) -> Signature:
    """Check `func` against its declaration; raises UsageError with the remedy.

    offered: the plugin's lifespans; None: they are invalid themselves.
    """
    executor = _executor(func, process=process)
    names = _parameters(func, 1 if executor == "process" else 2)
    hints = hints_of(func)
    for name in names:
        if name not in hints:
            raise UsageError(f"parameter {name!r} has no annotation: give it one.")
    payload = _payload(hints[names[0]], takes, executor)
    if executor != "process":
        _check_context(hints[names[1]], context, executor)
    return Signature(executor, payload, needs_of(func, hints, offered, after=len(names)))


def is_async(func: object) -> bool:
    """Whether `func` is an `async def`."""
    return inspect.iscoroutinefunction(func)


def _executor(func: Callable[..., Any], *, process: bool) -> Executor:
    if not inspect.isfunction(func):
        raise UsageError("only a function can be a handler: write def or async def.")
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise UsageError("it is a generator: a handler returns, it does not yield.")
    if not process:
        return "loop" if is_async(func) else "thread"
    if is_async(func):
        raise UsageError('executor="process" is for sync functions: drop async, or the executor.')
    if func.__qualname__ != func.__name__ or func.__name__ == "<lambda>":
        raise UsageError(
            'executor="process" needs a function at module level, to be found by name.'
        )
    return "process"


def _parameters(func: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` parameters; later parameters are resources."""
    parameters = list(inspect.signature(func).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own, others = parameters[:count], parameters[count:]
    if len(own) != count or any(each.kind not in positional for each in own):
        wanted = "the payload alone" if count == 1 else "the event or command, and its context"
        raise UsageError(f"it takes {inspect.signature(func)}: a handler here takes {wanted}.")
    if count == 1 and others:
        raise UsageError(
            f'it takes {inspect.signature(func)}, and with executor="process" the payload alone: '
            f"neither a context nor a resource can go to another process: drop {others[0].name!r}, "
            "or the executor."
        )
    return [each.name for each in own]


def _payload(hint: Any, takes: Takes, executor: Executor) -> Any:
    """The payload's annotation, from the first parameter."""
    if takes == "command":
        if _holder(hint) in (Event, EventChunk, BlockingEventChunk):
            raise UsageError(f"a command handler takes the command itself, not {shown(hint)}.")
        return hint
    wanted: Any = Event
    if takes == "chunk":
        wanted = EventChunk if executor == "loop" else BlockingEventChunk
    if _holder(hint) is not wanted:
        name = wanted.__name__
        raise UsageError(f"its first parameter is {shown(hint)}: annotate it {name}[YourPayload].")
    return Any if hint is wanted else get_args(hint)[0]


def _holder(hint: Any) -> Any:
    """The class around a payload, with or without its parameter."""
    return get_origin(hint) or hint


def _check_context(hint: Any, context: type[Any], executor: Executor) -> None:
    blocking = executor == "thread"
    connection = BlockingConnection if blocking else Connection
    if hint == context[connection] or (hint is context and not blocking):
        return
    name = f"Blocking{context.__name__}" if blocking else context.__name__
    kind = "a sync" if blocking else "an async"
    raise UsageError(f"its context is {shown(hint)}: {kind} handler here gets {name}.")
