"""The doctor: checks a running inbox, and names remedies.

Promises: nothing is changed; a check that takes too long or lacks a privilege becomes a finding,
and stops no other check; the cost does not depend on the size of history. Known limit: it uses the
settings of its command (lease, queues), not the workers'.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from inboxd.errors import DatabaseError, SchemaError
from inboxd.operations.doctor import (
    endpoints,
    fleet,
    messages,
    moved,
    receipts,
    relays,
    schema,
    server,
    sources,
    tables,
    targets,
    thresholds,
    work,
)
from inboxd.operations.doctor.finding import Finding, Levels, Verdict, worst
from inboxd.operations.doctor.look import Check, Look
from inboxd.settings import Settings
from inboxd.store import diagnosis
from inboxd.store.session import Session

__all__ = ["GROUPS", "Finding", "Levels", "Verdict", "document", "examine", "only", "worst"]

GROUPS: Mapping[str, Sequence[Check]] = {
    "schema": (
        moved.row_secured,
        schema.version,
        schema.plugin_migrations,
        schema.drift,
        schema.indexes,
        schema.partitions,
        schema.retention,
        moved.identities,
        moved.sequences,
        moved.rights,
        moved.owners,
        moved.search_path,
    ),
    "work": (
        work.topics,
        work.lines,
        work.kept,
        work.lanes,
        work.dead_letters,
        work.blocked_keys,
        work.blocked_lines,
        work.running,
        work.suspects,
        work.folds,
        work.undeclared_schedules,
        work.undeclared_topics,
        work.intakes,
        work.taken_keys,
        work.paused,
        targets.breakers,
        endpoints.endpoints,
    ),
    "workers": (fleet.workers, fleet.samples, fleet.listening, fleet.silenced, fleet.clock),
    "webhooks": (sources.sources, fleet.receiving, receipts.doubtful, receipts.held),
    "relays": (relays.relays,),
    "messages": (messages.sources,),
    "tables": (
        tables.vacuum,
        tables.oldest_snapshot,
        tables.locks,
        tables.advisory_locks,
        tables.sizes,
    ),
    "server": (server.server, server.producers, server.slots),
}


async def examine(
    session: Session, settings: Settings, seconds: float | None = None
) -> AsyncGenerator[tuple[str, Finding], None]:
    """Raises DatabaseError if the connection is lost, or the role cannot see the schema.

    seconds: for each statement. It ends after `schema.version` if this release does not fit.
    """
    for group, checks in GROUPS.items():
        for check in checks:
            found = await only(check, session, settings, seconds)
            for finding in found:
                yield group, finding
            if check is schema.version and worst(*(f.verdict for f in found)) is Verdict.CRITICAL:
                return


def document(found: Sequence[tuple[str, Finding]]) -> dict[str, Any]:
    verdict = worst(*(finding.verdict for _, finding in found))
    lines = [{"group": group, **asdict(finding)} for group, finding in found]
    return {"verdict": verdict, "findings": lines}


async def only(
    check: Check, session: Session, settings: Settings, seconds: float | None = None
) -> list[Finding]:
    """A check that fails becomes a finding."""
    found: list[Finding] = []
    seconds = thresholds.STATEMENT_SECONDS if seconds is None else seconds
    try:
        async with diagnosis.bounded(session, seconds):
            async for finding in check(Look(session, settings)):
                found.append(finding)  # noqa: PERF401 - keeps the findings before an error
    except (DatabaseError, SchemaError) as error:
        blind = check is schema.version and diagnosis.why(error) == "denied"
        if blind or session.connection.is_closed():
            raise
        found.append(_not_checked(check.__name__, error, seconds))
    return found


def _not_checked(name: str, error: DatabaseError | SchemaError, seconds: float) -> Finding:
    subject = name.replace("_", " ")
    match diagnosis.why(error):
        case "too long":
            found = f"not checked: it took longer than {seconds:g}s"
            return Finding(subject, Verdict.WARNING, found, "see locks, or run the doctor again")
        case "denied":
            return Finding(subject, Verdict.NOTICE, f"not checked: {error}", "see: inboxd check")
        case _:
            return Finding(subject, Verdict.WARNING, f"not checked: {error}")
