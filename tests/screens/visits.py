"""Addresses of each page of the screens, and rows for them.

Example:
    rows = await write_rows(database)
    for path in VISITS["/events/{id}"]:
        await screens.get(path.format(**rows))
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.browser import school
from tests.screens.test_batches import send_batch, send_workflow
from tests.support import Database
from tests.support.bulk_actions import ordered

EXAMINED: Final = "/doctor"
# Addresses by the path of the page's route; braces stand for ids of `write_rows`.
VISITS: Final[Mapping[str, tuple[str, ...]]] = {
    "/": ("/",),
    "/events": (
        *("/events", "/events?status=failed", "/events?commands=failed&type=answer.given"),
        *("/events?type=none&tenant=none", "/events?error=none", "/events?below=100"),
        *("/events?until=1m&type=answer.given", "/events?entity=none", "/events?payload=none%3D1"),
    ),
    "/commands": (
        *("/commands", "/commands?type=school.send_email", "/commands?type=none&status=succeeded"),
        *("/commands?queue=none", "/commands?error=none", "/commands?span=day&limit=100"),
        *("/commands?span=week", "/commands?span=quarter"),
    ),
    "/events/{id}": ("/events/{event}", "/events/{event}?payload=1", "/events/{pending}"),
    "/commands/{id}": (
        *("/commands/{dead}", "/commands/{command}", "/commands/{command}?payload=1"),
        "/commands/{next}",
    ),
    "/batches": ("/batches", "/batches?status=failed&tenant=none"),
    "/workflows": ("/workflows",),
    "/batches/{id}": ("/batches/{batch}", "/batches/{workflow}", "/batches/{batch}?status=failed"),
    "/story/{kind}/{id}": ("/story/event/{event}", "/story/batch/{workflow}"),
    "/find": ("/find", "/find?q=nobody", "/find?q={event}", "/find?q=malta"),
    "/failures": ("/failures",),
    "/failures/{group:path}": ("/failures/{group}", "/failures/-"),
    "/queues": ("/queues",),
    "/queues/{name:path}": ("/queues/grading", "/queues/email?span=day"),
    "/topics": ("/topics",),
    "/topics/{name:path}": ("/topics/points", "/topics/default?span=day"),
    "/types": ("/types",),
    "/types/{kind}/{type:path}": ("/types/command/school.send_email", "/types/event/answer.given"),
    "/schedules": ("/schedules",),
    "/breakers": ("/breakers",),
    "/endpoints": ("/endpoints",),
    "/endpoints/{name:path}": ("/endpoints/acme", "/endpoints/acme?status=succeeded"),
    "/sources": ("/sources",),
    "/spools": ("/spools",),
    "/workers": ("/workers", "/workers?all=1"),
    "/history": ("/history", "/history?all=1"),
    "/statement": ("/statement", "/statement?source=none"),
    "/doctor": (EXAMINED,),
    "/actions": ("/actions", "/actions?below=9"),
    "/actions/{id}": ("/actions/{action}",),
    "/audit": ("/audit", "/audit?actor=nobody"),
}


async def write_rows(database: Database) -> dict[str, object]:
    """Write a school, rows for the operating pages, and rows of each kind; return their ids."""
    await school.fill(database)
    operating = Path(__file__).with_name("operating.sql")
    await database.execute(operating.read_text())
    batch = await send_batch(database, "mails", 3)
    workflow = await send_workflow(database)
    await database.execute("analyze")
    (found,) = await database.fetch(
        "select (select max(origin_id) from inboxd.commands_history where origin_kind = 'event'),"
        " (select max(id) from inboxd.commands_history), (select max(id) from inboxd.events),"
        " (select min(id) from inboxd.commands where status = 'failed'),"
        " (select min(fingerprint) from inboxd.commands where status = 'failed')"
    )
    event, command, pending, dead, group = found
    # No reason holds this command, so its page also asks which rows claims take first.
    await database.execute(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'w', '', 1, '', '{}', '{next.due}', '{}', '')"
    )
    ((next_,),) = await database.fetch(
        "insert into inboxd.commands (queue, type) values ('next', 'next.due') returning id"
    )
    return {
        "event": event,
        "command": command,
        "pending": pending,
        "next": next_,
        "dead": dead,
        "group": group,
        "batch": batch,
        "workflow": workflow,
        "action": await ordered(database),
    }
