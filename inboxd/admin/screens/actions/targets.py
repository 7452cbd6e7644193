"""Actions on breakers (force one, or make it automatic) and endpoints (enable, disable).

*See:* `operations/breakers.py`, `operations/endpoints.py`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal, cast

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    NO_FORM,
    ActionTold,
    ActionVisit,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
from inboxd.admin.screens.addresses import path_of
from inboxd.admin.screens.formatting import shell
from inboxd.errors import Conflict, UsageError
from inboxd.model.wording import breaker_word
from inboxd.operations.held_rows import listed
from inboxd.resilience.rules import Mode

_MODES: Final[Mapping[str, tuple[str, Sentence, Sentence]]] = {
    "open": (
        "open",
        tell("Force open"),
        tell("Everything that needs it waits until an operator changes this."),
    ),
    "closed": (
        "close",
        tell("Force closed"),
        tell("All calls are let through, even if they fail."),
    ),
    "metrics_only": (
        "metrics-only",
        tell("Metrics only"),
        tell("It counts calls and stops none."),
    ),
    "auto": (
        "auto",
        tell("Automatic"),
        tell(
            "It opens and closes by the results of its calls again. If it was forced open, a "
            "probe is made first."
        ),
    ),
}


def _mode(visit: ActionVisit) -> Mode:
    mode = visit.named("mode")
    if mode not in _MODES:
        raise UsageError(f"{mode[:40]!r} is not a valid mode of a breaker: use {', '.join(_MODES)}")
    return cast("Mode", mode)


async def _ask_force(visit: ActionVisit) -> Question:
    name, mode = visit.named("name"), _mode(visit)
    row = await operations.one_breaker(visit.session, name)
    if row["mode"] == mode:
        raise Conflict(f"the breaker {name!r} is {mode.replace('_', ' ')} already")
    command, button, does = _MODES[mode]
    return Question(
        title=tell("Breaker {name}", name=name),
        button=button,
        does=[does, tell("It takes effect on every worker within a second.")],
        follows=[tell("Needed by: {uses}.", uses=listed(row["uses"]))] if row["uses"] else [],
        seen=row["mode"],
        command=f"inboxd breakers {command} {shell(name)}",
    )


async def _do_force(visit: ActionVisit) -> ActionTold:
    name, mode = visit.named("name"), _mode(visit)
    row = await operations.force_breaker(
        visit.session, name, mode, seen=visit.seen or "", **visit.by
    )
    told = tell("The breaker {name} is {state}.", name=name, state=breaker_word(row))
    return ActionTold("/breakers", told)


async def _ask_switch(to: Literal["enable", "disable"], visit: ActionVisit) -> Question:
    name = visit.named("name")
    row = await operations.one_endpoint(visit.session, name)
    if row["enabled"] == (to == "enable"):
        raise Conflict(f"the endpoint {name!r} is {to}d already")
    enable = to == "enable"
    return Question(
        title=tell("Endpoint {name}", name=name),
        button=tell("Enable") if enable else tell("Disable"),
        does=[
            tell("Waiting deliveries are sent, and new ones are written for it again.")
            if enable
            else tell("No more deliveries are written for it. Deliveries that already wait stay.")
        ],
        follows=[]
        if enable
        else [
            tell("Events that happen while it is disabled are not delivered later by themselves.")
        ],
        seen=row["changed_at"].isoformat(),
        command=f"inboxd endpoints {to} {shell(name)}",
    )


async def _do_switch(to: Literal["enable", "disable"], visit: ActionVisit) -> ActionTold:
    name, seen = visit.named("name"), visit.seen_at
    if seen is None:
        raise UsageError(NO_FORM)
    if to == "enable":
        await operations.enable_endpoint(visit.session, name, seen=seen, **visit.by)
        told = tell("The endpoint {name} is enabled.", name=name)
    else:
        await operations.disable_endpoint(visit.session, name, seen=seen, **visit.by)
        told = tell("The endpoint {name} is disabled.", name=name)
    return ActionTold(path_of("endpoints", name), told)


def _endpoint(about: QueryParams) -> str:
    return path_of("endpoints", about.get("name", ""))


def _breakers(_: QueryParams) -> str:
    return "/breakers"


ACTIONS: Final = (
    ScreenAction(path="/act/breaker", ask=_ask_force, do=_do_force, back=_breakers),
    *(
        ScreenAction(
            path=f"/act/endpoint/{to}",
            ask=partial(_ask_switch, to),
            do=partial(_do_switch, to),
            back=_endpoint,
        )
        for to in cast("tuple[Literal['enable', 'disable'], ...]", ("enable", "disable"))
    ),
)
