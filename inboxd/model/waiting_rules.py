"""Causes that hold an unsettled row, derived from the facts that claims use, in order.

Causes that an operator has to end come before causes that end by themselves. There is always a
cause; each is true regardless of others. Known limit: a cause that lasts as long as a claim (the
lock of a row) looks like a row that is next.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from inboxd.model.lifecycle import Status
from inboxd.model.waiting import Facts, WaitingCause
from inboxd.model.waiting_before import COUNTED, behind, next_of, stuck
from inboxd.model.waiting_facts import at, is_later, named, row_of, type_of
from inboxd.model.wording import span

# A chunk that is due only by its count has a due time in a hundred years.
_NEVER: Final = timedelta(days=36_000)
_LIVING: Final = frozenset({"running", "draining"})
# Seconds without a heartbeat after which a worker is probably dead.
_SILENT_SECONDS: Final = 15


def causes_of(kind: str, facts: Facts) -> list[WaitingCause]:
    """At least one. facts: of `explain_*.sql`, `bounds`, `attempts_allowed`, `lease` (seconds)."""
    if facts["status"] == Status.FAILED:
        return [_dead(facts)]
    if facts["status"] == Status.RUNNING:
        return [_running(facts)]
    found = [*(_command(facts) if kind == "command" else _event(facts))]
    return [*(found or [next_of(kind, facts)]), *_expires(facts)]


def _command(facts: Facts) -> Iterator[WaitingCause]:
    if facts["needs"]:
        yield from _needs(facts)
    yield from _paused(facts)
    if end := facts["endpoint"]:
        known = {"endpoint": named("endpoint", end["name"]), "actor": end["by"], "at": end["at"]}
        yield WaitingCause("disabled", "disabled", known, end["reason"])
    if facts["unpartitioned"]:
        yield WaitingCause("partition", "unpartitioned")
    if not facts["living"]:
        yield WaitingCause("nobody", "nobody")
    elif not facts["serving"]:
        known = {"type": type_of("command", facts), "queue": named("queue", facts["queue"])}
        yield WaitingCause("unserved", "unserved", known)
    yield from _breakers(facts)
    if not facts["needs"]:
        yield from _key(facts)
    yield from _due(facts)
    if facts["crashes"]:
        alone = facts["lone_crashes"] is not None
        told = {} if alone else {"others": facts["others"]}
        yield WaitingCause("suspect", "alone" if alone else "suspect", told)
    yield from _limits(facts)


def _expires(facts: Facts) -> Iterator[WaitingCause]:
    """Not a cause, but the end of all."""
    if facts.get("expires_at") and not facts["attempts"] and not facts["crashes"]:
        yield WaitingCause("expires", "expires", {"at": facts["expires_at"]})


def _event(facts: Facts) -> Iterator[WaitingCause]:
    yield from _paused(facts)
    if facts["unpartitioned"]:
        yield WaitingCause("partition", "unpartitioned")
    if not facts["living"]:
        yield WaitingCause("nobody", "nobody")
    elif facts["unhandled"]:
        known = {"type": type_of("event", facts), "topic": named("topic", facts["topic"])}
        yield WaitingCause("unserved", "kept", known)
    yield from _breakers(facts)
    if facts["status"] == Status.WAITING:
        yield from _line(facts)
    else:
        yield from _due(facts)
    yield from _slots(facts)


def _dead(facts: Facts) -> WaitingCause:
    if facts.get("rival"):
        return WaitingCause("dead", "dead, rival", {"row": row_of("command", facts["rival"])})
    if batch := facts.get("cancelled"):
        return WaitingCause("dead", "dead, cancelled", {"row": row_of(batch["kind"], batch)})
    return WaitingCause("dead", "dead", {"attempts": facts["attempts"]})


def _running(facts: Facts) -> WaitingCause:
    worker = facts["worker"]
    if worker is None or worker["state"] not in _LIVING:
        name = facts["worker_id"] if worker is None else worker["name"]
        known: dict[str, Any] = {"worker": named("worker", name)}
        return WaitingCause("running", "gone", known)
    known = {"worker": named("worker", worker["name"])}
    silence = worker["silence"]
    if silence > _SILENT_SECONDS:
        known |= {"silence": span(silence)}
        if not facts["rescuers"]:
            return WaitingCause("running", "lost, alone", known)
        lost_at = (at(worker["beat_at"]) + timedelta(seconds=facts["lease"])).isoformat()
        if not is_later(lost_at, facts):
            return WaitingCause("running", "lost, due", known)
        return WaitingCause("running", "lost", known | {"at": lost_at})
    if facts["cancel_requested"]:
        return WaitingCause("running", "ending", known)
    return WaitingCause("running", "running", known | {"at": facts["started_at"]})


def _needs(facts: Facts) -> Iterator[WaitingCause]:
    """The batches and commands that it waits for; dead letters first, then the number of others."""
    waits_for = facts["waits_for"] or ()
    met = [each for each in waits_for if each["id"] is not None]
    if not met:
        yield WaitingCause("waits", "released")
    for each in met:
        known: dict[str, Any] = {"row": row_of(each["kind"], each)}
        if each["size"] is None:
            yield WaitingCause("waits", "row", known | {"status": each["status"]})
            continue
        yield _batch(each, known)
    more = min(facts["unmet"], COUNTED) - len(waits_for)
    if more > 0:
        said = "others, many" if facts["unmet"] > COUNTED else "others"
        yield WaitingCause("waits", said, {"more": more})


def _batch(batch: Facts, known: dict[str, Any]) -> WaitingCause:
    """Dead letters count as left if success is required: a replay may bring it."""
    failed = batch["failed"] if batch["condition"] == Status.SUCCEEDED else 0
    known |= {"left": batch["size"] - batch["ended"] + failed, "size": batch["size"]}
    if batch["is_open"]:
        return WaitingCause("waits", "batch, open", known)
    if failed:
        return WaitingCause("waits", "batch, dead", known | {"failed": failed})
    return WaitingCause("waits", "batch", known)


def _paused(facts: Facts) -> Iterator[WaitingCause]:
    for each in facts["paused"] or ():
        kind = each["kind"]
        of = "event" if "topic" in facts else "command"
        what = named(f"{of} type" if kind == "type" else kind, each["name"])
        known = {kind: what, "actor": each["actor"], "at": each["paused_at"]}
        said = "reader" if kind == "type" and each["name"] != facts["type"] else kind
        yield WaitingCause("paused", f"paused {said}", known, each["reason"])


def _breakers(facts: Facts) -> Iterator[WaitingCause]:
    for each in facts["breakers"] or ():
        known: dict[str, Any] = {"breaker": named("breaker", each["name"])}
        if each["mode"] == "open":
            forced = known | {"actor": each["actor"] or "inboxd"}
            yield WaitingCause("breaker", "breaker, forced", forced, each["reason"])
        elif each["prober"] is not None:
            known |= {"worker": named("worker", each["prober"])}
            yield WaitingCause("breaker", "breaker, tried", known)
        elif each["open_until"] and is_later(each["open_until"], facts):
            opened = known | {"at": each["open_until"]}
            yield WaitingCause("breaker", "breaker", opened, each["reason"])
        else:
            yield WaitingCause("breaker", "breaker, due", known, each["reason"])


def _key(facts: Facts) -> Iterator[WaitingCause]:
    if facts["ordering_key"] is None:
        return
    most = facts["bounds"]["key_concurrency"]
    if most > 1 and facts["keyed"] >= most:
        yield WaitingCause("limit", "key", {"running": facts["keyed"], "most": most})
    if holder := facts["holder"]:
        yield behind("command", holder, facts)
    elif (first := facts["first"]) and (cause := stuck("command", first, facts)):
        yield cause


def _line(facts: Facts) -> Iterator[WaitingCause]:
    """An event in a line: of an ordering key in an ordered topic, or of a batch topic."""
    declared = facts["declared"] or {"mode": facts["mode"], "relay": False, "rules": {}}
    if facts["intake"] and facts["position"] is None:
        known = {"topic": named("topic", facts["topic"]), "at": facts["intake"]}
        yield WaitingCause("intake", "intake", known)
    if declared["mode"] == "batch" and facts["position"] is not None:
        yield from _chunk(facts["head"], declared["rules"], facts)
    elif facts["holder"]:
        yield behind("event", facts["holder"], facts)
    elif facts["crashes"] and is_later(facts["run_at"], facts):
        yield _apart(facts)
    else:
        yield from _due(facts)
    if facts["writers"]:
        yield WaitingCause("producer", "producer", {"writers": facts["writers"]})
    elif facts["unseen"]:
        yield WaitingCause("producer", "unseen", {"writers": facts["unseen"]})


def _chunk(head: Facts | None, rules: Facts, facts: Facts) -> Iterator[WaitingCause]:
    if head is None:
        return
    if head["status"] == Status.FAILED:
        yield behind("event", head, facts)
        return
    if not is_later(head["run_at"], facts):
        return
    never = at(head["run_at"]) - at(head["created_at"]) > _NEVER
    known: dict[str, Any] = {"size": head["length"]}
    expect = rules.get("expect")
    full = expect if isinstance(expect, int) else rules.get("count")
    when = {} if never else {"at": head["run_at"]}
    if isinstance(expect, list) and head["types"] is not None:
        missing = ", ".join(each for each in expect if each not in head["types"])
        said = "chunk, types only" if never else "chunk, types"
        yield WaitingCause("chunk", said, known | {"missing": missing} | when)
    elif full is not None:
        said = "chunk, full" if never else "chunk, or full"
        yield WaitingCause("chunk", said, known | {"full": full} | when)
    else:
        yield WaitingCause("chunk", "chunk", known | {"at": head["run_at"]})


def _due(facts: Facts) -> Iterator[WaitingCause]:
    if not is_later(facts["run_at"], facts):
        return
    if "topic" in facts and facts["crashes"]:
        yield _apart(facts)
        return
    known: dict[str, Any] = {"at": facts["run_at"]}
    if not facts["attempts"]:
        yield WaitingCause("due", "due", known)
        return
    known |= {"attempt": facts["attempts"] + 1, "attempts": facts["attempts_allowed"]}
    yield WaitingCause("due", "again", known)


def _apart(facts: Facts) -> WaitingCause:
    known = {"crashes": facts["crashes"], "at": facts["run_at"]}
    return WaitingCause("suspect", "apart", known)


def _limits(facts: Facts) -> Iterator[WaitingCause]:
    bounds = facts["bounds"]
    queue: dict[str, Any] = {"queue": named("queue", facts["queue"])}
    if bounds["total"] is not None and facts["total"] >= bounds["total"]:
        known = queue | {"running": facts["total"], "most": bounds["total"]}
        yield WaitingCause("limit", "total", known)
    if bounds["rate"] is not None and facts["claimed"] >= bounds["rate"]:
        known = queue | {"claimed": facts["claimed"], "most": bounds["rate"]}
        known |= {"period": span(bounds["period"]), "at": facts["again"]}
        yield WaitingCause("limit", "rate", known)
    if serving := facts["serving"]:
        if facts["alone"] >= serving:
            yield WaitingCause("limit", "exclusive", {"workers": serving})
        elif facts["full"] >= serving:
            yield WaitingCause("limit", "busy", {"workers": serving})


def _slots(facts: Facts) -> Iterator[WaitingCause]:
    most = ((facts["declared"] or {}).get("rules") or {}).get("total_concurrency")
    if most is not None and facts["slots"] >= most:
        known = {"topic": named("topic", facts["topic"]), "running": facts["slots"], "most": most}
        yield WaitingCause("limit", "full", known)
    if facts["living"] and facts["alone"] >= facts["living"]:
        yield WaitingCause("limit", "exclusive", {"workers": facts["living"]})
    if facts["leased"]:
        yield WaitingCause("running", "leased", {"worker": named("worker", facts["leased"])})
    elif facts["visited"]:
        yield WaitingCause("running", "visited")
