"""Forces a breaker open or closed, or makes it automatic again."""

from collections.abc import Mapping
from typing import Final, cast

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
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
    state = Sentence(breaker_word(row))
    told = tell("The breaker {name} is {state}.", name=name, state=state)
    return ActionTold("/breakers", told)


def _breakers(_: QueryParams) -> str:
    return "/breakers"


ACTIONS: Final = (ScreenAction(path="/act/breaker", ask=_ask_force, do=_do_force, back=_breakers),)
