"""Hooks: functions of a plugin that are called at a worker's start and end, and for failures.

Owns the declaration of hooks and the values that they are given; `inboxd.engine.hooks` calls them.
Promises that a hook is given no payload. Known limit: the exception is the handler's own, with its
text and frames.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from inboxd.api.functions import full_name, hints_of, name_of, place_of_function, where
from inboxd.api.resources import Lifespan, Needs, needs_of
from inboxd.errors import UsageError

Moment = Literal["on_start", "on_stop", "on_error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker: its id, its name in the settings, and inboxd's version."""

    id: UUID
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """An attempt that failed, after the failure has committed. The payload is not part of it.

    error: the exception. message: its type and text, without the rows and arguments that a database
    driver quotes, and with passwords masked as in the log. fingerprint: equal for equal failures,
    as in `inboxd failures`. outcome: "retrying", at `retry_at`, or "dead", a dead letter. plugin,
    handler: the failed handler; None if no handler was called. For a chunk, `events` is the number
    of events that failed together, and the other fields describe its first event.
    """

    error: BaseException
    message: str
    fingerprint: str
    outcome: Literal["retrying", "dead"]
    retry_at: datetime | None
    kind: Literal["event", "chunk", "command"]
    id: int
    uuid: UUID
    type: str
    topic: str | None
    queue: str | None
    plugin: str | None
    handler: str | None
    attempt: int
    correlation_id: str
    tenant: str | None
    worker: WorkerInfo
    events: int = 1


_GIVEN: dict[Moment, type[WorkerInfo | FailedAttempt]] = {
    "on_start": WorkerInfo,
    "on_stop": WorkerInfo,
    "on_error": FailedAttempt,
}


@dataclass(frozen=True, slots=True)
class HookDeclaration:
    """One use of a hook's decorator, as written."""

    moment: Moment
    func: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A hook that was checked."""

    plugin: str
    name: str
    place: str
    moment: Moment
    func: Callable[..., Any]
    needs: Needs


def check_hooks(
    plugin: str, declared: Sequence[HookDeclaration], offered: Sequence[Lifespan] | None
) -> tuple[tuple[Hook, ...], list[str]]:
    """The hooks of a plugin in their order, and their problems; `offered`: its resources."""
    found: list[Hook] = []
    problems: list[str] = []
    for each in declared:
        try:
            found.append(_checked(plugin, each, offered))
        except UsageError as error:
            problems.append(f"{where(each.func)}: {error}")
    return tuple(found), problems


def _checked(plugin: str, declared: HookDeclaration, offered: Sequence[Lifespan] | None) -> Hook:
    func, given = declared.func, _GIVEN[declared.moment]
    if not inspect.iscoroutinefunction(func):
        raise UsageError(
            "a hook must be `async def`: run blocking code with await asyncio.to_thread(…)."
        )
    hints = hints_of(func)
    names = list(inspect.signature(func).parameters)
    first = hints.get(names[0]) if names else None
    if first is not given:
        found = "nothing" if first is None else full_name(first)
        raise UsageError(f"its first parameter is {found}: annotate it {given.__name__}.")
    return Hook(
        plugin=plugin,
        name=name_of(func),
        place=place_of_function(func),
        moment=declared.moment,
        func=func,
        needs=needs_of(func, hints, offered, after=1),
    )
