"""Checks whether events and commands are handled, and the causes that hold them up.

Counts stop at a limit. Known limit: limits and rules of queues come from its own settings.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from inboxd.model.spelling import meant
from inboxd.model.wording import plural, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import controls, listing, names, queues, schedules, statistics
from inboxd.store import lines as store_lines
from inboxd.store import suspects as store_suspects
from inboxd.store import topics as store_topics
from inboxd.store.connections import Row
from inboxd.store.wakeups import HotTable


async def topics(look: Look) -> AsyncIterator[Finding]:
    async for finding in _backlog(look, "events", "topic"):
        yield finding


async def lines(look: Look) -> AsyncIterator[Finding]:
    stopped = await controls.read(look.session)
    paused_ = {row["name"] for row in stopped if row["kind"] == "topic"}
    for row in await store_topics.lines(look.session):
        name, oldest = row["topic"], row["oldest"] or 0.0
        verdict = thresholds.BACKLOG_SECONDS.judge(0.0 if name in paused_ else oldest)
        remedy = f"see `inboxd topics show {name}`; start a worker that serves it"
        found = f"{row['lined_up']:,} in line, {row['arrived']:,} not in line yet"
        if row["arrived"]:
            found += f", the oldest arrived {span(oldest)} ago"
        if name in paused_:
            found += "; paused"
        subject = f"backlog: lines of topic {name}"
        yield Finding(subject, verdict, found, remedy, oldest, "seconds")


async def kept(look: Look) -> AsyncIterator[Finding]:
    """Find events that no living worker handles: by type in lanes, by topic in lines."""
    lanes_ = [row for row in await listing.lanes(look.session, "events") if row["kept"]]
    found = [(row["topic"], row["type"], row["pending"], row["oldest"] or 0.0) for row in lanes_]
    held = [row for row in await store_topics.lines(look.session) if row["kept"]]
    found += [(row["topic"], None, row["kept"], row["kept_for"]) for row in held]
    found.sort(key=lambda each: -each[3])
    declared = await names.declared(look.session) or {}
    for topic, type_, count, oldest in found[: thresholds.SHOWN]:
        more = "+" if count >= listing.COUNTED else ""
        events = f"{count:,}{more} of type {type_}"
        if type_ is None:
            events = plural(count, "ordering key").replace(" ", f"{more} ", 1) + " held"
        remedy = "start a worker that handles the type, or set how to settle its events: "
        remedy += f'[types."{type_ or "…"}"] unhandled = "dead" or "ignore"'
        if type_ is None:
            remedy = f"`inboxd topics blocked --topic {topic}` lists keys and types; {remedy}"
        remedy = _correction(topic, type_, declared) + remedy
        text = f"{events}, without a handler, the oldest for {span(oldest)}"
        subject = f"kept: topic {topic}"
        yield thresholds.KEPT_SECONDS.find(subject, oldest, "seconds", text, remedy)
    if len(found) > thresholds.SHOWN:
        left = len(found) - thresholds.SHOWN
        remedy = "`inboxd status` lists all of them"
        yield Finding("kept", Verdict.NOTICE, f"{left} more types or topics", remedy, left)
    if not found:
        yield Finding("kept", Verdict.OK, "every event has a worker that handles it", figure=0)


def _correction(topic: str, type_: str | None, declared: names.Names) -> str:
    topics_ = {*declared.get("topic", ()), *declared.get("topic of settings", ())}
    for name, known in ((topic, topics_), (type_, declared.get("event type", frozenset()))):
        if name and name not in known and (near := meant(name, known)):
            return f"if producers of {name!r} mean {near!r}, correct the name there; or "
    return ""


async def lanes(look: Look) -> AsyncIterator[Finding]:
    async for finding in _backlog(look, "commands", "queue"):
        yield finding


async def _backlog(look: Look, table: HotTable, kind: str) -> AsyncIterator[Finding]:
    stopped = await controls.read(look.session)
    paused = {(row["kind"], row["name"]) for row in stopped}
    lanes_ = await listing.lanes(look.session, table)
    if not lanes_:
        yield Finding(f"backlog: {table}", Verdict.OK, f"no unsettled {table}", figure=0)
    for name in sorted({row[kind] for row in lanes_}):
        yield _judge_lane(kind, name, [row for row in lanes_ if row[kind] == name], paused)


def _judge_lane(
    kind: str, name: str, rows: Sequence[Mapping[str, Any]], paused: Collection[tuple[str, str]]
) -> Finding:
    """All types count together, without paused and unhandled types."""
    stopped = {row["type"] for row in rows if {(kind, name), ("type", row["type"])} & set(paused)}
    held = stopped | {row["type"] for row in rows if row.get("kept")}
    judged = [row for row in rows if row["type"] not in held]
    oldest = max((row["oldest"] or 0.0 for row in judged), default=0.0)
    pending, due = (sum(row[what] for row in rows) for what in ("pending", "due"))
    more = "+" if any(row["pending"] >= listing.COUNTED for row in rows) else ""
    found = f"{pending:,}{more} pending, {due:,} due"
    if any(row["due"] for row in judged):
        found += f", the oldest for {span(oldest)}"
    if stopped:
        found += f"; paused: {', '.join(sorted(stopped))}"
    if unhandled := held - stopped:
        found += f"; without a handler: {', '.join(sorted(unhandled))} (see kept)"
    where = "inboxd status" if kind == "topic" else f"inboxd queues show {name}"
    remedy = f"see `{where}`; start a worker that serves it, or more workers"
    subject = f"backlog: {kind} {name}"
    return thresholds.BACKLOG_SECONDS.find(subject, oldest, "seconds", found, remedy)


async def dead_letters(look: Look) -> AsyncIterator[Finding]:
    session = look.session
    hour = await statistics.lately(session, timedelta(hours=1), apart=("kind",))
    grown = {each.kind: each.outcome("failed") for each in hour.figures}
    tables: tuple[tuple[HotTable, str], ...] = (("events", "event"), ("commands", "command"))
    for table, kind in tables:
        rows = await listing.lanes(look.session, table)
        failed, lately = sum(row["failed"] for row in rows), grown.get(kind, 0)
        verdict = thresholds.FAILED_ROWS.judge(failed)
        if failed:  # without dead letters, all failures of the last hour were settled since
            verdict = max(
                verdict, thresholds.FAILED_LAST_HOUR.judge(lately), key=lambda each: each.rank
            )
        more = "+" if any(row["failed"] >= listing.COUNTED for row in rows) else ""
        found = f"{failed:,}{more} unsettled; {lately:,} failed within the last hour"
        remedy = "`inboxd failures list`, then replay or dismiss them"
        yield Finding(f"dead letters: {table}", verdict, found, remedy, failed, "rows")


async def blocked_keys(look: Look) -> AsyncIterator[Finding]:
    session = look.session
    found = await queues.blocked(session, look.settings.all_queues)
    if not found:
        yield Finding("blocked keys", Verdict.OK, "no queue has blocked keys", figure=0)
    for each in found:
        # A key behind a retry or a running command continues by itself.
        dead = each.held_by == "dead letter"
        text = f"{each.keys:,} by a {each.held_by}, the oldest for {span(each.oldest)}"
        remedy = f"`inboxd queues show {each.queue}` lists them; replay or dismiss the dead letters"
        subject = f"blocked keys: queue {each.queue}"
        levels = thresholds.BLOCKED_SECONDS if dead else thresholds.ANY
        yield levels.find(subject, each.oldest, "seconds", text, remedy)


async def blocked_lines(look: Look) -> AsyncIterator[Finding]:
    """A dead letter, or an event without a handler, blocks a line."""
    found = await store_lines.count_blocked(look.session)
    blocked = [each for each in found if each.held_by != "retry"]
    if not blocked:
        yield Finding("blocked lines", Verdict.OK, "no topic has blocked lines", figure=0)
    for each in blocked:
        dead = each.held_by == "dead letter"
        more = "+" if each.lines >= store_lines.HOLDERS else ""
        holder = "a dead letter" if dead else "an event without a handler"
        remedy = (
            "`inboxd failures list`; replay or dismiss the dead letter, and the line continues"
            if dead
            else f"see `inboxd topics blocked --topic {each.topic}`; start a worker that handles it"
        )
        text = f"{each.lines:,}{more} behind {holder}, the oldest for {span(each.oldest)}"
        subject = f"blocked lines: topic {each.topic}"
        yield thresholds.BLOCKED_SECONDS.find(subject, each.oldest, "seconds", text, remedy)


async def suspects(look: Look) -> AsyncIterator[Finding]:
    """Find commands that ran on a worker when it died, and have not completed a run since."""
    row = await store_suspects.count(look.session, thresholds.COUNTED)
    count = row["waiting"] + row["running"]
    if not count:
        yield Finding("suspects", Verdict.OK, "none", figure=0)
        return
    found = (
        f"{plural(count, 'command')} in {plural(row['groups'], 'group')} ran on a worker when it "
    )
    found += f"died; running: {row['running']:,}, to run alone: {row['alone']:,}"
    yield Finding(
        "suspects",
        thresholds.SUSPECT_SECONDS.judge(row["oldest"] or 0.0),
        found,
        "do nothing: each group runs together and is cleared when it ends; if its worker dies "
        "again the group is halved, until one command runs alone. `inboxd commands show ID` names "
        "the worker; find out why it died (memory, the node)",
        count,
        "rows",
    )


async def running(look: Look) -> AsyncIterator[Finding]:
    lease = look.settings.worker.lease.total_seconds()
    rows = await look.rows("doctor_running", thresholds.COUNTED, lease)
    lost = [row for row in rows if not row["alive"]]
    for row in lost[: thresholds.SHOWN]:
        silence = row["oldest"] if row["silence"] is None else row["silence"]
        found = f"{plural(row['commands'], 'command')} held by {row['name'] or row['worker']}, "
        found += f"without a heartbeat for {span(silence)}, such as {row['type']} {row['id']}"
        remedy = "start a worker, which reaps them within a lease; if one runs, see its log"
        if row["silence"] is None:  # the worker has no row, so that reapers do not find it
            remedy = "insert the worker's row again, as in docs/why.md; a worker then reaps them"
        verdict = thresholds.STUCK_LEASES.judge(silence / lease)
        yield Finding("stuck leases", verdict, found, remedy, silence, "seconds")
    if not lost:
        held = sum(row["commands"] for row in rows)
        found = f"none: {plural(held, 'running command')}, all held by living workers"
        yield Finding("stuck leases", Verdict.OK, found, figure=0)
    longest = max(
        (row for row in rows if row["alive"]), key=lambda row: row["oldest"], default=None
    )
    if longest is not None:
        found = f"{longest['type']} {longest['id']} for {span(longest['oldest'])}"
        yield thresholds.RUNNING_SECONDS.find(
            "longest command",
            longest["oldest"],
            "seconds",
            f"{found}, on {longest['name']}",
            f"`inboxd commands cancel {longest['id']}` ends it",
        )


async def folds(look: Look) -> AsyncIterator[Finding]:
    """Workers must fold the ends of members as fast as these end."""
    row = await look.row("doctor_folds", thresholds.COUNTED)
    remedy = "start a worker: each one counts them; if one runs, see its log"
    found = (
        f"{plural(row['rows'], 'ended row')} not counted yet, the oldest for {span(row['oldest'])}"
    )
    yield thresholds.FOLD_SECONDS.find("batches", row["oldest"], "seconds", found, remedy)


async def undeclared_schedules(look: Look) -> AsyncIterator[Finding]:
    rows = await schedules.listed(look.session)
    for finding in _undeclared("schedules", rows, "is not sent: no living worker declares it"):
        yield finding


async def undeclared_topics(look: Look) -> AsyncIterator[Finding]:
    """The events of an undeclared topic stay unhandled."""
    rows = await look.rows("doctor_topics")
    for finding in _undeclared("topics", rows, "is declared by no living worker"):
        yield finding


def _undeclared(subject: str, rows: Sequence[Row], what: str) -> Iterator[Finding]:
    gone = [row for row in rows if row["undeclared_at"] is not None]
    for row in gone:
        mode = f", {row['mode']}" if subject == "topics" else ""
        yield Finding(
            subject,
            Verdict.WARNING,
            f"{row['name']!r} ({row['source']}{mode}) {what}",
            "start a worker with its plugin or settings; do nothing if it was removed on purpose",
        )
    if not gone:
        yield Finding(subject, Verdict.OK, f"{len(rows)}, all declared", figure=len(rows))


async def intakes(look: Look) -> AsyncIterator[Finding]:
    """Find topics whose lines wait until their older events are taken in."""
    for row in await look.rows("doctor_intakes"):
        writers = ", ".join(row["writers"] or ()) or "no session"
        yield thresholds.INTAKE_SECONDS.find(
            "intakes",
            row["age"],
            "seconds",
            f"topic {row['topic']} for {span(row['age'])}; events are written by: {writers}",
            "start a worker, which takes the events in once the open transactions of writers have "
            "ended; to end one: SELECT pg_terminate_backend(PID)",
        )


async def taken_keys(look: Look) -> AsyncIterator[Finding]:
    """Further sends with a key that is taken for years are duplicates."""
    rows = await look.rows("doctor_taken_keys", thresholds.COUNTED, thresholds.KEY_TAKEN_FOR)
    for row in rows[: thresholds.SHOWN]:
        found = f"{row['unique_key']!r} of type {row['type']} is taken until {row['due']:%Y-%m-%d}"
        more = row["count"] - 1
        found += f", and {plural(more, 'more key')} of the type for as long" if more else ""
        remedy = f"see `inboxd commands list --type {row['type']}`; cancel it if it is a mistake"
        yield Finding("unique keys", Verdict.NOTICE, found, remedy, row["count"])
    if not rows:
        yield Finding("unique keys", Verdict.OK, "no key is taken for over a year", figure=0)


async def paused(look: Look) -> AsyncIterator[Finding]:
    """A long pause may be a forgotten one."""
    rows = await controls.read(look.session)
    if not rows:
        yield Finding("paused", Verdict.OK, "nothing", figure=0)
        return
    now = await look.now()
    for row in rows:
        since = max(0.0, (now - row["paused_at"]).total_seconds())
        yield Finding(
            "paused",
            thresholds.PAUSED_SECONDS.judge(since),
            f"{row['kind']} {row['name']} by {row['actor']} for {span(since)}"
            + (f": {row['reason']}" if row["reason"] else ""),
            f"run `inboxd resume {row['kind']} {row['name']}` when it may continue",
            since,
            "seconds",
        )
