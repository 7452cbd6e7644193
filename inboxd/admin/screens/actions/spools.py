"""Actions on the spool of this host: drain, insert or discard a receipt, discard a folder.

Promises: an action only touches the host that the page showed; discarding needs a reason and a
typed word, since the senders got an answer 2xx and will not send again. Known limit: a process that
does not receive has no spool; its screens name the command and the host.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import anyio
from starlette.datastructures import QueryParams

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.actions.contract import (
    NO_FORM,
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
from inboxd.admin.screens.formatting import shell
from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.model.wording import size

# Typed to confirm that something is lost.
WORD: Final = "discard"
# For a drain, and then for the answer.
_DRAIN_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 3.0
_SEEN: Final = re.compile(r"([0-9]{1,12}) ([0-9]{1,12})", re.ASCII)
_LOST: Final = tell("This cannot be undone. The senders got an answer 2xx and will not send again.")


def _spool(visit: ActionVisit, command: str) -> HostSpool:
    """Raises RequestRefused, if the address names another host."""
    host, spool = visit.named("host"), visit.spool
    if spool is None or spool.host != host:
        here = "has no spool" if spool is None else f"is on {spool.host}"
        detail = (
            f"nothing was changed: this process {here}; run `{command}` on the host "
            f"{host[:100]!r}, as its receiver's user"
        )
        raise RequestRefused(HTTPStatus.CONFLICT, detail)
    return spool


def _title(spool: HostSpool) -> Sentence:
    return tell("Spool of {host}", host=spool.host)


async def _ask_drain(visit: ActionVisit) -> Question:
    spool = _spool(visit, "inboxd spool drain")
    if not _waits(await spool.listed()):
        raise Conflict(f"nothing waits in the spool of {spool.host}: there is nothing to drain")
    return Question(
        title=_title(spool),
        button=tell("Drain now"),
        does=[
            tell("Waiting receipts are written to the database now, the oldest first, each once.")
        ],
        follows=[
            tell(
                "A running receiver drains its spool as soon as the database answers; this "
                "tries now. If the receiver is draining already, nothing is done here."
            ),
            tell("Receipts that the database refuses are set apart, with the reason."),
        ],
        command="inboxd spool drain",
    )


async def _do_drain(visit: ActionVisit) -> ActionTold:
    spool = _spool(visit, "inboxd spool drain")
    if not _waits(await spool.listed()):
        raise Conflict(f"nothing waits in the spool of {spool.host}: nothing was changed")
    within = min(
        _DRAIN_SECONDS,
        anyio.current_effective_deadline() - anyio.current_time() - _ANSWER_SECONDS,
    )
    drained, apart, ended = await spool.drain(visit.session, within, **visit.by)
    told = (
        tell("Drained: {n}. Set apart: {m}.", n=drained, m=apart)
        if ended
        else tell(
            "Drained so far: {n}. Set apart: {m}. The rest waits: drain it again, here or on a "
            "terminal.",
            n=drained,
            m=apart,
        )
    )
    return ActionTold("/spools", told, "good" if ended and not apart else "warning")


def _waits(listed: Mapping[str, Any]) -> bool:
    """Whether there is anything to drain: receipts, damaged frames, or files that mark sources."""
    of_folders = (each[of] for each in listed["folders"] for of in ("waiting", "damaged"))
    # None: there are more than were read.
    return bool(listed["sources"]) or any(count is None or count for count in of_folders)


def _facts(item: Mapping[str, Any]) -> list[Sentence]:
    known = (
        tell(
            "It is the receipt {id} of {source}, received at {time}: {size}.",
            id=item["receipt_id"],
            source=item["source"],
            time=f"{item['received_at']:%Y-%m-%d %H:%M:%S} UTC",
            size=size(item["bytes"]),
        )
        if item["receipt_id"]
        else tell("It can no longer be read as a receipt: {size}.", size=size(item["bytes"]))
    )
    return [known, tell("It was set apart because: {reason}", reason=item["reason"])]


async def _ask_insert(visit: ActionVisit) -> Question:
    name = visit.named("name")
    command = f"inboxd spool drain --apart {shell(name)}"
    spool = _spool(visit, command)
    item = await spool.apart(name)
    if not item["receipt_id"]:
        raise Conflict(
            f"{item['name']} cannot be read as a receipt: it can be discarded, but not inserted"
        )
    return Question(
        title=_title(spool),
        button=tell("Insert it"),
        does=[tell("It is written to the database again, at your request."), *_facts(item)],
        follows=[
            tell("If the database refuses it again, it stays set apart."),
            tell(
                "A receipt that is older than the database's memory of receipts may be stored "
                "already: then its events are written twice."
            ),
        ],
        command=command,
    )


async def _do_insert(visit: ActionVisit) -> ActionTold:
    name = visit.named("name")
    spool = _spool(visit, f"inboxd spool drain --apart {shell(name)}")
    outcome = await spool.insert(visit.session, name, **visit.by)
    return ActionTold("/spools", tell("Inserted: {outcome}.", outcome=outcome))


def _word(visit: ActionVisit) -> AskedField:
    return AskedField(
        name="word",
        title=tell("To confirm, type: {word}", word=WORD),
        value=visit.typed.get("word", ""),
        required=True,
    )


def _confirmed(visit: ActionVisit) -> None:
    """Raise UsageError, if the reason or the typed word is missing."""
    if not visit.reason:
        raise UsageError("give a reason: discarded receipts are lost, and the audit keeps it")
    if visit.typed.get("word", "").strip() != WORD:
        raise UsageError(f"discarded receipts are lost: type {WORD!r} to confirm it")


async def _ask_discard(visit: ActionVisit) -> Question:
    name = visit.named("name")
    command = f"inboxd spool discard {shell(name)} --reason '...'"
    spool = _spool(visit, command)
    item = await spool.apart(name)
    return Question(
        title=_title(spool),
        button=tell("Discard it"),
        does=[
            tell("Its audit entry is written first; then it is removed from the disk."),
            *_facts(item),
        ],
        follows=[_LOST],
        fields=[_word(visit)],
        command=command,
        final=True,
    )


async def _do_discard(visit: ActionVisit) -> ActionTold:
    name = visit.named("name")
    spool = _spool(visit, f"inboxd spool discard {shell(name)}")
    _confirmed(visit)
    await spool.discard(visit.session, name, **visit.by)
    return ActionTold("/spools", tell("Discarded: {name}.", name=name))


async def _ask_discard_folder(visit: ActionVisit) -> Question:
    name = visit.named("name")
    command = f"inboxd spool discard {shell(name)} --folder --reason '...'"
    spool = _spool(visit, command)
    folder = await spool.folder(name)
    if folder["owner"] == "alive":
        raise Conflict(f"a running process owns the folder {name[:40]!r}: stop it first")
    if folder["waiting"] is None:
        detail = f"the folder has {size(folder['bytes'])}, too much to be counted here"
        raise RequestRefused(HTTPStatus.CONFLICT, f"{detail}: on {spool.host}, run `{command}`")
    return Question(
        title=_title(spool),
        button=tell("Discard the folder"),
        does=[
            tell(
                "The audit entry is written first; then the folder {name} is removed from the "
                "disk with all its contents.",
                name=folder["folder"],
            ),
            tell(
                "Receipts that wait in it: {n}; set apart: {m}. All of them are lost.",
                n=folder["waiting"],
                m=folder["set_apart"],
            ),
        ],
        follows=[_LOST],
        fields=[_word(visit)],
        seen=f"{folder['waiting']} {folder['set_apart']}",
        command=command,
        final=True,
    )


async def _do_discard_folder(visit: ActionVisit) -> ActionTold:
    name = visit.named("name")
    spool = _spool(visit, f"inboxd spool discard {shell(name)} --folder")
    seen = _SEEN.fullmatch(visit.seen or "")
    if seen is None:
        raise UsageError(NO_FORM)
    _confirmed(visit)
    counts = (int(seen[1]), int(seen[2]))
    lost = await spool.discard_folder(visit.session, name, counts, **visit.by)
    told = tell("Discarded: folder {name}. Receipts that waited there: {n}.", name=name, n=lost)
    return ActionTold("/spools", told)


def _page(_: QueryParams) -> str:
    return "/spools"


ACTIONS: Final = (
    ScreenAction(
        path="/act/spool/drain", ask=_ask_drain, do=_do_drain, back=_page, reserved="drain"
    ),
    ScreenAction(
        path="/act/spool/insert", ask=_ask_insert, do=_do_insert, back=_page, reserved="drain"
    ),
    ScreenAction(
        path="/act/spool/discard",
        ask=_ask_discard,
        do=_do_discard,
        back=_page,
        role=Role.ADMIN,
    ),
    ScreenAction(
        path="/act/spool/discard-folder",
        ask=_ask_discard_folder,
        do=_do_discard_folder,
        back=_page,
        role=Role.ADMIN,
    ),
)
