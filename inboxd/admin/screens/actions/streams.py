"""Resets a stream of a broker, once for each form: sets where it continues."""

from typing import Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    tell,
)
from inboxd.admin.screens.formatting import shell
from inboxd.operations.messages import check_has_positions, target_of

_PLACES: Final = (
    ("oldest", tell("With the oldest message that the broker has")),
    ("newest", tell("With new messages only")),
    ("position", tell("After a position")),
)


def _stream(visit: ActionVisit) -> tuple[str, str]:
    """Raises UsageError for a source without positions."""
    source, stream = visit.named("source"), visit.named("stream")
    check_has_positions(visit.settings, source)
    return source, stream


async def _ask(visit: ActionVisit) -> Question:
    source, stream = _stream(visit)
    row = await operations.one_stream(visit.session, source, stream)
    seen = await operations.seen_entry(visit.session, "reset", target_of(source, stream))
    typed = visit.typed
    return Question(
        title=tell("Stream {stream} of {source}", stream=stream, source=source),
        button=tell("Reset"),
        does=[
            tell(
                "Its reader stores nothing more from the old position, and continues at the new "
                "one."
            ),
            tell("Messages are stored up to position {position}.", position=row["position"])
            if row["position"] is not None
            else tell("No position is stored yet."),
        ],
        follows=[
            tell("Messages before the new position that are not stored yet are left out."),
            tell(
                "Messages after it that are stored already are read again. Without a dedup key of "
                "the source, those whose events have been settled become events once more."
            ),
            tell("The position is not compared with the broker, which may not have it any more."),
        ],
        fields=[
            AskedField(
                name="to",
                title=tell("Where it continues"),
                kind="choice",
                choices=_PLACES,
                value=typed.get("to", "oldest"),
            ),
            AskedField(
                name="position",
                title=tell("Position of the last message that counts as stored"),
                kind="number",
                value=typed.get("position", ""),
            ),
        ],
        seen=str(seen),
        command=f"inboxd messages reset {shell(source)} {shell(stream)} --to oldest",
        final=True,
    )


async def _do(visit: ActionVisit) -> ActionTold:
    source, stream = _stream(visit)
    to = visit.typed.get("to", "")
    if to == "position":
        to = visit.typed.get("position", "").strip()
    await operations.reset_stream(
        visit.session, source, stream, to, seen=visit.seen_number, **visit.by
    )
    words = {"stream": stream, "source": source}
    told = {
        "oldest": tell("Reset: {stream} of {source} continues with the oldest message.", **words),
        "newest": tell("Reset: {stream} of {source} continues with new messages only.", **words),
    }
    after = tell("Reset: {stream} of {source} continues after {position}.", position=to, **words)
    return ActionTold("/sources", told.get(to, after))


def _back(_: QueryParams) -> str:
    return "/sources"


ACTIONS: Final = (ScreenAction(path="/act/stream/reset", ask=_ask, do=_do, back=_back),)
