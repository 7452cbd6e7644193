"""Archives a failure group as it was shown, or returns it to the list."""

from typing import Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    Question,
    ScreenAction,
    tell,
)
from inboxd.admin.screens.addresses import path_of
from inboxd.admin.screens.formatting import shell
from inboxd.errors import Conflict
from inboxd.operations.archived_groups import seen_as
from inboxd.operations.failures import Group


async def _group(visit: ActionVisit, *, archived: bool) -> list[Group]:
    """The group's parts, one per kind of row. Raises NotFound; Conflict if `archived` differs."""
    name = visit.named("group")
    found = await operations.failures(visit.session, name)
    if all(each.archived for each in found) is not archived:
        state = "not archived, or has grown since" if archived else "archived already"
        raise Conflict(f"the failure group {name!r} is {state}: open its page again")
    return found


async def _ask_archive(visit: ActionVisit) -> Question:
    found = await _group(visit, archived=False)
    name, count = found[0].fingerprint or "", sum(each.count for each in found)
    more = "+" if any(each.at_least for each in found) else ""
    return Question(
        title=tell("Failure group {name}", name=name),
        button=tell("Archive"),
        does=[
            tell("The list of failures leaves it out until it grows."),
            tell(
                "Its {n} rows stay dead letters: nothing runs, nothing is lost.",
                n=f"{count:,}{more}",
            ),
        ],
        follows=[
            tell("It has more rows than are counted: a newer row lists it again, no other.")
            if more
            else tell("It is listed again as soon as one more row fails in the same way.")
        ],
        seen=seen_as(found),
        command=f"inboxd failures archive {shell(name)}",
    )


async def _do_archive(visit: ActionVisit) -> ActionTold:
    name = visit.named("group")
    await operations.archive_group(visit.session, name, seen=visit.seen or "", **visit.by)
    return ActionTold("/failures", tell("Archived: failure group {name}.", name=name))


async def _ask_unarchive(visit: ActionVisit) -> Question:
    found = await _group(visit, archived=True)
    name = found[0].fingerprint or ""
    return Question(
        title=tell("Failure group {name}", name=name),
        button=tell("Unarchive"),
        does=[tell("The list of failures shows it again.")],
        command=f"inboxd failures unarchive {shell(name)}",
    )


async def _do_unarchive(visit: ActionVisit) -> ActionTold:
    name = visit.named("group")
    await operations.unarchive_group(visit.session, name, **visit.by)
    return ActionTold(_back(visit.about), tell("Listed again: failure group {name}.", name=name))


def _back(about: QueryParams) -> str:
    return path_of("failures", about.get("group", ""))


ACTIONS: Final = (
    ScreenAction(path="/act/failures/archive", ask=_ask_archive, do=_do_archive, back=_back),
    ScreenAction(path="/act/failures/unarchive", ask=_ask_unarchive, do=_do_unarchive, back=_back),
)
