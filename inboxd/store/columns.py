"""Text that statements share: lists of columns, and the filters of lists and bulk actions.

`{event but status, updated_at}`: the columns that an event shares with its history, except those
two, which the statement gives itself. `{each given command but run_at: r.NAME AS NAMES}`: that text
for each argument of `send_command` but one, where NAME is its name, NAMES the name of its array,
TYPE its type, BY_DEFAULT its default with `DEFAULT`, and NUMBER+3 its place in this list, plus 3;
`{each stored command: …}` is without arguments that are not columns, `{each passing command: …}`
has the times that a replay removes once they have passed, `{each lasting command: …}` the others.
`{each field schedule: …}` has the fields of a schedule.
`{inserted event}`: the columns that producers may insert; `{changed event}`: those that operators
and workers may change. `{claimed event}`: the columns that a claim returns, alias
`e` (of a command: `c`). `{story of s}`: the columns of the view `story`, alias `s`.
`{matching event}`: a list's filter on an event, alias `r`; it needs `{looked event u}` of a table
with the alias `u`. `{seen by id}`: the result of one look; `{planned looks}` sets the planner.
`{meant event h}`: a bulk action's filter, alias `h`. `{statistics}`: the counts of executions,
`{statistics summed}`: of a group; `{statistics added}`: added to a row, alias `old`.
`{has expired c}`: whether an unsettled command `c` has expired. `{end of h}`: how a command `h` of
history ended: its status, or `expired` or `skipped`; `{reason of h}`: what is said of these two.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import get_type_hints

from inboxd.api.schedules import Schedule
from inboxd.model.durations import BUCKETS
from inboxd.model.row_columns import COLUMNS, Column, columns_of, given

# The columns that a hot table and its history share.
SHARED = {kind: [each.name for each in of if each.is_kept] for kind, of in COLUMNS.items()}

# `beginning` cuts texts that are longer than producers may write. Times are seconds with exact
# microseconds: to the driver one timestamp costs more than all other columns. Large headers: see
# read_headers.sql.
CLAIMED = {
    "event": """\
e.id, e.event_id, e.topic, e.type, e.schema_version, {schema}.beginning(e.source) AS source,
       {schema}.beginning(e.tenant) AS tenant, {schema}.beginning(e.entity_type) AS entity_type,
       {schema}.beginning(e.entity_id) AS entity_id, e.payload,
       {schema}.light_headers(e.headers) AS headers,
       {schema}.headers_weight(e.headers) AS headers_bytes,
       {schema}.beginning(e.correlation_id) AS correlation_id, e.causation_id,
       {schema}.beginning(e.traceparent) AS traceparent, e.attempts, e.crashes,
       date_part('epoch', e.run_at) AS run_at, e.body_id, e.body_at, e.body_bytes, e.ordering_key,
       nullif(e.occurred_at, e.run_at) AS occurred_at,
       date_part('epoch', e.created_at) AS created_at,
       date_part('epoch', clock_timestamp() - e.run_at) AS waited,
       date_part('epoch', clock_timestamp() - e.created_at) AS age,
       e.attempts = 0 AND e.crashes = 0 AND e.errors IS NOT NULL AS replayed""",
    "command": """\
c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority,
       {schema}.beginning(c.tenant) AS tenant, {schema}.beginning(c.entity_type) AS entity_type,
       {schema}.beginning(c.entity_id) AS entity_id, c.attempts, c.max_attempts, c.crashes, c.fence,
       date_part('epoch', c.run_at) AS run_at, c.deadline, c.deadline < clock_timestamp() AS late,
       CASE WHEN c.expires_at IS NOT NULL AND c.attempts = 0 AND c.crashes = 0
            THEN date_part('epoch', c.expires_at - clock_timestamp()) END AS expires_in,
       c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited,
       c.ordering_key, {schema}.beginning(c.correlation_id) AS correlation_id, c.causation_id,
       {schema}.beginning(c.traceparent) AS traceparent, c.body_id, c.body_at, c.body_bytes,
       date_part('epoch', clock_timestamp() - c.run_at) AS waited,
       date_part('epoch', clock_timestamp() - c.created_at) AS age,
       c.attempts = 0 AND c.crashes = 0
           AND (c.replay_of IS NOT NULL OR c.errors IS NOT NULL) AS replayed""",
}

# Columns of the view `story`.
_STORY = """
    hot, kind, id, uuid, type, lane, status, attempts, created_at, started_at, finished_at,
    duration, run_at, origin_kind, origin_id, causation_id, correlation_id, traceparent, batch_id,
    replay_of, tenant, source, worker_id, counts
"""

# Columns in the order of write_statistics.sql.
_TIMES = ("run", "wait", "completion")
STATISTICS = (
    "count",
    *(f"{time}_{part}" for time in _TIMES for part in ("total", "maximum", "histogram")),
)

# Whether the times of a row match `since`, `until` and `by`, which are parameters. A row ends when
# it is settled or becomes a dead letter; failures are found by the time of each attempt's error.
_IN_TIME = """\
CASE WHEN {by}::text IS NULL
             THEN ({since}::timestamptz IS NULL OR {row}.created_at >= {since})
                  AND ({until}::timestamptz IS NULL
                       OR coalesce({settled}, {row}.created_at) < {until})
             WHEN {by} = 'waiting'
             THEN {row}.created_at < coalesce({until}, 'infinity')
                  AND coalesce({ended}, 'infinity') >= coalesce({since}, '-infinity')
             ELSE {by} <> 'failed' AND {ended} >= coalesce({since}, '-infinity')
                  AND {ended} < coalesce({until}, 'infinity')
                  OR {by} <> 'ended' AND EXISTS (
                      SELECT FROM jsonb_array_elements({errors}) tried
                       WHERE (tried ->> 'at')::timestamptz >= coalesce({since}, '-infinity')
                         AND (tried ->> 'at')::timestamptz < coalesce({until}, 'infinity')) END"""


def _in_time(row: str, *, since: str, until: str, by: str, settled: str, errors: str) -> str:
    """The condition on a row's times. settled: its finished_at; a hot row has none."""
    ended = f"coalesce({settled}, CASE WHEN {row}.status = 'failed' THEN {row}.updated_at END)"
    words = {"row": row, "since": since, "until": until, "by": by}
    words |= {"settled": settled, "ended": ended, "errors": errors}
    return re.sub(r"\{(\w+)\}", lambda found: words[found[1]], _IN_TIME)


# Whether a row `r` matches a list's filter; parameters: see find_{table}.sql. The commands of an
# event are those that its handlers sent, also in batches; a failed command that was replayed as a
# new row no longer counts as failed. OFFSET 0 makes each event search its own commands: the planner
# might instead read those of all events once, and whole batches.
_MATCHING = """\
($1::text IS NULL OR r.type = $1) AND ($2::text[] IS NULL OR r.status = ANY ($2))
           AND ($3::text IS NULL OR r.tenant = $3)
           AND ($4::text IS NULL OR r.{lane} = $4)
           AND {in time}
           AND ($9::text IS NULL OR r.entity_type = $9)
           AND ($10::text IS NULL OR r.entity_id = $10)
           AND ($7::text IS NULL
                OR strpos(lower(r.errors -> -1 ->> 'error'), lower($7)) > 0)
           AND ($8::jsonb[] IS NULL
                OR coalesce(r.payload, {content jsonb: (
                       SELECT b.payload FROM {schema}.bodies b
                        WHERE b.id = r.body_id AND b.created_at = r.body_at)}) @> ANY ($8))
           AND ($11::text[] IS NULL{children})"""
_CHILDREN = """
           OR EXISTS (SELECT FROM {schema}.commands c
                       WHERE c.causation_id = r.event_id AND c.batch_id IS NULL
                         AND c.status <> 'running' AND c.origin_kind = 'event'
                         AND c.origin_id = r.id AND c.status = ANY ($11) OFFSET 0)
           OR ('running' = ANY ($11)
               AND r.id IN (SELECT c.origin_id FROM {schema}.commands c
                             WHERE c.status = 'running' AND c.origin_kind = 'event'))
           OR EXISTS (SELECT FROM {schema}.batches b
                       WHERE b.causation_id = r.event_id AND b.origin_kind = 'event'
                         AND b.origin_id = r.id
                         AND ('succeeded' = ANY ($11) AND b.succeeded > 0
                              OR 'failed' = ANY ($11) AND b.failed > 0
                              OR 'cancelled' = ANY ($11) AND b.cancelled + b.skipped > 0
                              OR $11 && ARRAY['pending', 'waiting', 'running']
                                 AND b.size > b.succeeded + b.failed + b.cancelled + b.skipped)
                      OFFSET 0)
           OR ($11 && ARRAY['succeeded', 'cancelled', 'dismissed']
               AND EXISTS (SELECT FROM {schema}.commands_history h
                            WHERE h.causation_id = r.event_id AND h.batch_id IS NULL
                              AND h.finished_at >= r.created_at AND h.status <> 'failed'
                              AND h.finished_at < now() + interval '1 day'
                              AND h.origin_kind = 'event' AND h.origin_id = r.id
                              AND h.status = ANY ($11) OFFSET 0))"""
_OF_EITHER = (
    *("id", "type", "status", "tenant", "created_at", "entity_type", "entity_id"),
    *("body_id", "body_at", "updated_at"),
)
_OF_ONE = {"event": ("topic", "event_id"), "command": ("queue",)}
_TIMED = _MATCHING.replace(
    "{in time}",
    _in_time("r", since="$5", until="$6", by="$12", settled="r.finished_at", errors="r.errors"),
)
MATCHING = {
    "event": _TIMED.replace("{lane}", "topic").replace("{children}", _CHILDREN),
    "command": _TIMED.replace("{lane}", "queue").replace("{children}", ""),
}

# Whether an unsettled row matches a bulk action's filter, besides its status, type and fingerprint,
# by which the statements find it; parameters: see count_{table}.sql.
_MEANT = """\
($3::text IS NULL OR {row}.{lane} = $3)
   AND ($4::text[] IS NULL OR {row}.tenant = ANY ($4))
   AND {in time}
   AND ($6::text IS NULL
        OR strpos(lower({content text: {row}.errors -> -1 ->> 'error'}), lower($6)) > 0)
   AND ($8::bigint[] IS NULL OR {batch})
   AND ($10::text IS NULL OR {row}.entity_type = $10)
   AND ($11::text IS NULL OR {row}.entity_id = $11)"""
_LANES = {"event": "topic", "command": "queue"}
_IN_BATCH = {"event": "false", "command": "{row}.batch_id = ANY ($8)"}

# The result of a look: see find_{table}.sql. Rows are read in the named order, so a block that
# the order returns to later is counted again.
_SEEN = """\
SELECT count(*)::integer AS looked, max(id) AS high, min(id) AS low,
       (SELECT l.created_at FROM looked l ORDER BY l.id LIMIT 1) AS low_created_at,
       min(finished_at) AS ended,
       count(*) FILTER (WHERE block IS DISTINCT FROM before)::integer AS blocks,
       (array_agg(id ORDER BY id DESC) FILTER (WHERE hit))[:$15::integer] AS ids,
       (array_agg(finished_at ORDER BY id DESC) FILTER (WHERE hit))[:$15::integer] AS finished
  FROM (SELECT *, lag(block) OVER (ORDER BY {order}) AS before FROM looked) l"""
SEEN = {"id": _SEEN.replace("{order}", "id DESC"), "block": _SEEN.replace("{order}", "block")}

_EACH = re.compile(r"\{each (\w+) (event|command|schedule)(?: but ([a-z_,\s]+))?: ([^{}]+)\}")
_IS_IN: Mapping[str, Callable[[Column], bool]] = {
    "field": lambda _: True,
    "given": lambda _: True,
    "stored": lambda column: column.is_stored,
    "passing": lambda column: column.passes,
    "lasting": lambda column: column.is_stored and not column.passes,
}
_SCHEDULE_TYPES = {int: "smallint", timedelta | None: "interval"}
_SCHEDULE = [
    Column(name, _SCHEDULE_TYPES.get(type_, "text"))
    for name, type_ in get_type_hints(Schedule).items()
]
_PRIVILEGED = re.compile(r"\{(inserted|changed) (event|command)\}")
_WIDTH = 118
_BUT = re.compile(r"\{(event|command) but ([a-z_, ]+)\}")
_CLAIMED = re.compile(r"\{claimed (event|command)\}")
_OF_STORY = re.compile(r"\{story of (\w+)\}")
_STATISTICS = re.compile(r"\{statistics(| summed| summed and named| added)\}")
_LOOKED = re.compile(r"\{seen by (id|block)\}")
_NEEDED = re.compile(r"\{looked (event|command) (\w)\}")
# These plans must not depend on the table's statistics.
PLANNED_LOOKS = """\
set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       set_config('plan_cache_mode', 'force_custom_plan', true)"""

# A command whose attempt has failed never expires; one with crashes may have begun.
_HAS_EXPIRED = """\
({c}.expires_at <= clock_timestamp() AND {c}.attempts = 0 AND {c}.crashes = 0
            AND {c}.status IN ('pending', 'waiting'))"""
_END = """\
CASE WHEN {h}.status <> 'cancelled' OR {h}.cancel_requested THEN {h}.status
            WHEN {h}.attempts = 0 AND {h}.expires_at <= {h}.finished_at THEN 'expired'
            ELSE 'skipped' END"""
_REASON = """\
CASE {end} WHEN 'expired' THEN 'expired: not started in time'
            WHEN 'skipped' THEN 'skipped: not needed' END""".replace("{end}", _END)
_OF_COMMANDS = (
    (re.compile(r"\{has expired (\w+)\}"), _HAS_EXPIRED.replace("{c}", r"\1")),
    (re.compile(r"\{end of (\w+)\}"), _END.replace("{h}", r"\1")),
    (re.compile(r"\{reason of (\w+)\}"), _REASON.replace("{h}", r"\1")),
)

_MATCHES = re.compile(r"\{matching (event|command)\}")
_MEANS = re.compile(r"\{meant (event|command) (\w+)\}")


def written_out(text: str) -> str:
    text = _EACH.sub(_each, text)
    text = _PRIVILEGED.sub(_privileged, text)
    text = _BUT.sub(_all_but, text)
    text = _OF_STORY.sub(lambda found: _story(found[1]), text)
    for found, said in _OF_COMMANDS:
        text = found.sub(said, text)
    text = _STATISTICS.sub(lambda found: _statistics(found[1].strip()), text)
    text = _NEEDED.sub(lambda found: _needed(found[1], found[2]), text)
    text = text.replace("{planned looks}", PLANNED_LOOKS)
    text = _LOOKED.sub(lambda found: SEEN[found[1]], text)
    text = _MATCHES.sub(lambda found: MATCHING[found[1]], text)
    text = _MEANS.sub(lambda found: _meant(found[1], found[2]), text)
    return _CLAIMED.sub(lambda found: CLAIMED[found[1]], text)


def _meant(kind: str, row: str) -> str:
    in_time = _in_time(
        row,
        since="$5",
        until="$9",
        by="$12",
        settled="NULL::timestamptz",
        errors=f"{{content jsonb: {row}.errors}}",
    )
    text = _MEANT.replace("{in time}", in_time).replace("{batch}", _IN_BATCH[kind])
    return text.replace("{lane}", _LANES[kind]).replace("{row}", row)


def _needed(kind: str, name: str) -> str:
    """The columns that `{matching}` needs; contents only for roles that may read them."""
    of = ", ".join(f"{name}.{column}" for column in _OF_EITHER + _OF_ONE[kind])
    kept = ", ".join(
        f"{{content jsonb: {name}.{each}}} AS {each}" for each in ("payload", "errors")
    )
    return f"{of}, {kept}"


def _story(name: str) -> str:
    columns = ", ".join(f"{name}.{column}" for column in re.findall(r"\w+", _STORY))
    return f"{columns}, {{content text: {name}.error}} AS error"


def _all_but(found: re.Match[str]) -> str:
    others = found[2].split(", ")
    return _lines((column for column in SHARED[found[1]] if column not in others), found)


def _each(found: re.Match[str]) -> str:
    which, kind, but, form = found.groups()
    others = re.split(r",\s+", but) if but else []
    described = _SCHEDULE if kind == "schedule" else given(kind)
    of = [c for c in described if _IS_IN[which](c) and c.name not in others]
    return _lines((_formed(form, column, place) for place, column in enumerate(of)), found)


def _formed(form: str, column: Column, place: int) -> str:
    default = "" if column.default is ... else f" DEFAULT {_literal(column)}"
    words = {"NAME": column.name, "NAMES": column.parameter, "TYPE": column.type}
    words |= {" BY_DEFAULT": default}
    text = re.sub(r"NUMBER\+(\d+)", lambda found: str(place + int(found[1])), form)
    return re.sub(r"\b(?:NAMES?|TYPE)\b| BY_DEFAULT\b", lambda found: words[found[0]], text)


def _literal(column: Column) -> str:
    if column.name == "payload":
        return "'{}'"
    value = column.default
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def _privileged(found: re.Match[str]) -> str:
    which, kind = found.groups()
    changes = [each.name for each in COLUMNS[kind] if each.changes]
    return ", ".join(changes if which == "changed" else columns_of(kind))


def _lines(parts: Iterable[str], found: re.Match[str]) -> str:
    """A list in place of a match, on lines that a person can read in psql."""
    begin = found.string.rfind("\n", 0, found.start()) + 1
    indent = len(found.string[begin : found.start()])
    length = indent
    lines: list[list[str]] = [[]]
    for part in parts:
        if lines[-1] and length + len(part) > _WIDTH:
            lines.append([])
            length = indent
        lines[-1].append(part)
        length += len(part) + 2
    return f",\n{' ' * indent}".join(", ".join(line) for line in lines)


def _statistics(how: str) -> str:
    match how:
        case "summed":
            return ",\n       ".join(map(_summed, STATISTICS))
        case "summed and named":
            return ",\n       ".join(f"{_summed(column)} AS {column}" for column in STATISTICS)
        case "added":
            return ",\n       ".join(f"{column} = {_added(column)}" for column in STATISTICS)
    return ", ".join(STATISTICS)


def _summed(column: str) -> str:
    """The aggregate of a column. A histogram's buckets that no row has are removed."""
    if column.endswith("_histogram"):
        sums = ", ".join(f"sum({column}[{n}])" for n in range(1, BUCKETS + 1))
        return f"nullif(array_remove(ARRAY[{sums}]::bigint[], NULL), '{{}}')"
    return f"max({column})" if column.endswith("_maximum") else f"sum({column})"


def _added(column: str) -> str:
    """The sum of the row `old` and the new row `excluded`; NULL counts as nothing."""
    old, new = f"old.{column}", f"excluded.{column}"
    if column.endswith("_histogram"):
        each = f"unnest({old}, {new}) AS u(a, b)"
        return f"(SELECT array_agg(coalesce(a, 0) + coalesce(b, 0)) FROM {each})"  # noqa: S608
    if column.endswith("_maximum"):
        return f"greatest({old}, {new})"
    return f"coalesce({old} + {new}, {old}, {new})"
