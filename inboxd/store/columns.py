"""The column lists that several statements share, each written once.

In a statement, `{event but status, updated_at}` stands for the columns of an event that history
takes over as they are, without those two, which the statement says anew; `{claimed event}` for what
a claim returns of an event, whose table is called `e` there; the same of commands, called `c`.
*See:* inboxd/store/rows.py for the types of what a claim returns.
"""

import re

# Those that a hot table and its history share.
_SHARED = {
    "event": """
        id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key,
        tenant, entity_type, entity_id, payload, headers, correlation_id, causation_id,
        traceparent, status, attempts, crashes, run_at, errors, fingerprint, body_id, body_at,
        body_bytes, occurred_at, created_at, updated_at, origin_kind, origin_id
    """,
    "command": """
        id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
        unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
        run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
        replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint,
        result, progress, body_id, body_at, body_bytes, created_at, updated_at, awaited
    """,
}
SHARED = {kind: re.findall(r"\w+", columns) for kind, columns in _SHARED.items()}

# Texts that no producer may write are cut. Times are seconds, exact to the microsecond: a driver
# spends more on a timestamp than on all the rest. Headers that are large: see read_headers.sql.
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
       c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited,
       c.ordering_key, {schema}.beginning(c.correlation_id) AS correlation_id, c.causation_id,
       {schema}.beginning(c.traceparent) AS traceparent, c.body_id, c.body_at, c.body_bytes,
       date_part('epoch', clock_timestamp() - c.run_at) AS waited,
       date_part('epoch', clock_timestamp() - c.created_at) AS age,
       c.attempts = 0 AND c.crashes = 0
           AND (c.replay_of IS NOT NULL OR c.errors IS NOT NULL) AS replayed""",
}

_BUT = re.compile(r"\{(event|command) but ([a-z_, ]+)\}")
_CLAIMED = re.compile(r"\{claimed (event|command)\}")


def written_out(text: str) -> str:
    """A statement with its lists of columns."""
    text = _BUT.sub(lambda found: _all_but(found[1], found[2].split(", ")), text)
    return _CLAIMED.sub(lambda found: CLAIMED[found[1]], text)


def _all_but(kind: str, others: list[str]) -> str:
    return ", ".join(column for column in SHARED[kind] if column not in others)
