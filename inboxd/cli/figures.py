"""`inboxd status --since`: throughput in a span of time; also the last hour in other commands.

Numbers of statistics are marked `≈`, with their age and the counts that may be missing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inboxd.cli import columns, plots
from inboxd.cli.options import Looking
from inboxd.cli.output import Fields, Table, TableColumn
from inboxd.model.moments import read_back
from inboxd.model.wording import plural, short_number, span

if TYPE_CHECKING:
    from inboxd.operations.figures import Part, Summary
    from inboxd.operations.spans import Span
    from inboxd.operations.totals import Exactness
    from inboxd.store.session import Session

_TREND_CHARACTERS = 16
_MOST_TYPES = 20
_TIMES = (
    ("run", "run", f"run time of handlers, {columns.WITHIN}"),
    ("wait", "wait", "from due time to claim"),
    ("done", "completion", "from creation to success"),
)
_LANES = {"event": "topic", "command": "queue"}


def print_since(since: str, limit: int, tenant: str | None, given: Looking) -> None:
    from inboxd.operations.figures import exactness_of, summaries
    from inboxd.operations.spans import span_to_now

    back = read_back(since)

    async def look(session: "Session") -> "tuple[Span, list[Summary], Exactness]":
        span = await span_to_now(session, back, by_minute=tenant is None)
        found = await summaries(session, span, limit, tenant)
        return span, found, await exactness_of(session, tenant)

    covered, found, exactness = given.ask(look)
    document = {"tenant": tenant, "exactness": exactness, **_document(covered, found)}
    given.print(document, list(_parts(covered, found, tenant, exactness)))


# ----------------------------------------------------------------------------------------- as JSON


def _document(covered: "Span", found: "Sequence[Summary]") -> dict[str, Any]:
    from inboxd.operations.figures import AGE, part_document

    return {
        "since": covered.since,
        "until": covered.until,
        "resolution": covered.resolution,
        "step": covered.step,
        "age": AGE,
        **{
            f"{each.kind}s": {
                "arrived": asdict(each.arrived),
                "ended": each.ended,
                **part_document(each.whole),
                "types": [{"type": part.name, **part_document(part)} for part in each.types],
                f"{_LANES[each.kind]}s": [
                    {_LANES[each.kind]: part.name, **part_document(part)} for part in each.lanes
                ],
            }
            for each in found
        },
    }


# ---------------------------------------------------------------------------------------- as tables


def _parts(
    covered: "Span", found: "Sequence[Summary]", tenant: str | None, exactness: "Exactness"
) -> Iterator[Fields | Table]:
    from inboxd.operations.figures import AGE

    fields: dict[str, object] = {
        "since": covered.since,
        "until": covered.until,
        "steps": f"{len(covered.begins)}, by {covered.resolution} of UTC",
        "exactness": f"≈ from statistics, at most {span(AGE.total_seconds())} old;\n"
        "the last seconds of a killed worker may be missing",
    }
    if tenant is not None:
        fields["tenant"] = tenant
    if exactness == "at_least":
        fields["exactness"] = columns.WITHOUT_A_PLACE
    for each in found:
        fields[f"{each.kind}s"] = _whole(each)
    yield Fields(fields, "Throughput")
    for each in found:
        for what, parts in (("type", each.types), (_LANES[each.kind], each.lanes)):
            if parts:
                title = f"{each.kind.capitalize()}s by {what}"
                yield columns.table(_columns(what), parts, title)


def _whole(summary: "Summary") -> str:
    done, arrived = summary.whole.throughput, summary.arrived
    text = f"≈ {done.succeeded:,} succeeded ({_rate(done.rate)}), {done.failed:,} failed, "
    text += f"{done.retried:,} retried"
    if arrived.seconds:
        rate, sampled = _rate(arrived.rows / arrived.seconds), span(arrived.seconds)
        text += f"\n≈ {arrived.rows:,} arrived ({rate}, in {sampled} of samples)"
    return text


def _rate(a_second: float) -> str:
    if not a_second:
        return "0/s"
    units = (("s", 1), ("min", 60), ("h", 3600))
    unit, seconds = next((each for each in units if a_second * each[1] >= 1), ("day", 86_400))
    return f"{short_number(a_second * seconds)}/{unit}"


def percent(share: float | None) -> str:
    """Format a share: "97.3 %"; only a full share is "100 %", only an empty one "0 %"."""
    if share is None:
        return ""
    shown = min(max(round(100 * share, 1), 0.1), 99.9) if 0 < share < 1 else 100 * share
    return f"{shown:.1f} %".replace(".0 ", " ")


def _name(part: "Part") -> str:
    return f"({plural(part.others, 'other')})" if part.name is None else part.name or "(unknown)"


def _title(part: "Part") -> str | None:
    return columns.own_title(part.name or "", part.title)


def _of(name: str) -> "Callable[[Part], object]":
    return lambda part: getattr(part.throughput, name)


def _took(what: str, rank: str) -> "Callable[[Part], object]":
    return lambda part: getattr(getattr(part.throughput, what), rank)


def _again(part: "Part") -> str:
    done = part.throughput
    return f"{done.reprocessed} ({percent(done.success_again) or '-'})" if done.reprocessed else ""


def _columns(what: str) -> columns.Columns:
    # A narrow terminal drops the last columns first.
    ranks = [
        TableColumn(
            f"{title} {rank}",
            _took(name, rank),
            kind="span",
            extra=(title, rank) != ("run", "p95"),
            legend=legend if rank == "p95" else "",
        )
        for rank in ("p95", "p50", "p99")
        for title, name, legend in _TIMES
    ]
    return (
        TableColumn(what, _name, cut="left"),
        TableColumn("title", _title, cut="right", extra=True),
        TableColumn("succeeded", _of("succeeded"), kind="number", legend=columns.ROWS),
        *(TableColumn(name, _of(name), kind="number") for name in ("failed", "retried")),
        TableColumn("success", lambda part: percent(part.throughput.success), kind="number"),
        TableColumn("rate", lambda part: _rate(part.throughput.rate), kind="number", extra=True),
        TableColumn(
            "again",
            _again,
            kind="number",
            extra=True,
            legend="executions after a retry or a replay (share of the ended rows that succeeded)",
        ),
        *ranks,
        TableColumn("trend", lambda part: plots.sparkline(part.trend, _TREND_CHARACTERS)),
    )


# ---------------------------------------------------------------------------- for other commands


def hour_tables(parts: "Sequence[Part]") -> list[Table]:
    shown = parts[:_MOST_TYPES]
    left = len(parts) - len(shown)
    title = "Done in the last hour (≈)" + (f"; {plural(left, 'type')} not shown" if left else "")
    return [columns.table(_columns("type")[:-1], shown, title)] if parts else []
