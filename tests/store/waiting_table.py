"""The cause that covers each condition of the statements that claim rows.

    assert "c.crashes = 0" in STATEMENTS["inboxd/store/sql/commands/claim_commands.sql"]["suspect"]

Before you change this table for a changed condition, decide what operators are told then: the texts
are those of `inboxd/model/waiting.py`.
"""

from typing import Final

# Conditions that join or find rows: they leave out no row.
PLUMBING: Final = "plumbing"
# By file, then by cause; "next": another claim has the row, or the line, at this moment.
STATEMENTS: Final[dict[str, dict[str, list[str]]]] = {
    "inboxd/store/sql/commands/claim_commands.sql": {
        "ahead": [
            (
                "c.run_at, c.id) > (least(to_timestamp(lane.after_at), now() "
                "- interval '100 ms'), lane.after_id"
            ),
        ],
        "busy": ["$9", "lane.queue = room.queue", "room.rows) c"],
        "dead": ["c.status = 'pending'"],
        "due": ["c.run_at <= now"],
        "next": ["SKIP LOCKED"],
        "nobody": ["state = 'running'"],
        "suspect": ["c.crashes = 0"],
        "unserved": ["c.type = lane.type"],
        PLUMBING: [
            "c.id BETWEEN picked.id",
            "c.priority = lane.priority",
            "c.queue = lane.queue",
            "id = $1::uuid",
            "picked.id",
        ],
    },
    "inboxd/store/sql/commands/claim_suspects.sql": {
        "busy": ["$6", "member.position <=", "room.queue = member.queue"],
        "due": ["c.run_at <= now"],
        "next": ["SKIP LOCKED"],
        "nobody": ["state = 'running'"],
        "suspect": ["c.suspect_group = $2::uuid", "c.suspect_group IS NOT NULL"],
        "unserved": ["c.queue = ANY ($4::text[]", "c.type = ANY ($3::text[]"],
        PLUMBING: [
            "$7::boolean",
            "c.id BETWEEN member.id",
            "c.id BETWEEN picked.id",
            "c.id IS NOT NULL",
            "id = $1::uuid",
            "member.id",
            "picked.id",
        ],
    },
    "inboxd/store/sql/commands/claim_limited.sql": {
        "suspect": ["c.crashes = 0"],
        PLUMBING: ["c.fence > 1", "c.replay_of IS NOT NULL", "k.id = c.id"],
    },
    "inboxd/store/sql/events/claim_events.sql": {
        "ahead": [
            "$5",
            (
                "e.run_at, e.id) > (least(to_timestamp(lane.after_at), now() "
                "- interval '100 ms'), lane.after_id"
            ),
        ],
        "dead": ["e.status = 'pending'"],
        "due": ["e.run_at <= now"],
        "kept": ["e.type = lane.type"],
        "next": ["SKIP LOCKED"],
        PLUMBING: ["e.topic = lane.topic"],
    },
    "inboxd/store/sql/events/claim_event.sql": {
        "dead": ["e.status IN ('pending', 'waiting'"],
        "next": ["SKIP LOCKED"],
        PLUMBING: ["e.id = $1"],
    },
    "inboxd/store/sql/events/claim_arrivals.sql": {
        "ahead in bucket": ["$5", "$6) e", "e.bucket, e.id) > (lane.bucket, lane.after"],
        "behind": ["h.head", "h.ordering_key = e.ordering_key", "h.topic = e.topic"],
        "dead": ["e.status = 'waiting'"],
        "producer": ["e.bucket, e.id) <= (lane.bucket, lane.bound"],
        PLUMBING: ["1) head", "e.position IS NULL", "e.topic = lane.topic", "true"],
    },
    "inboxd/store/sql/events/claim_lined_up.sql": {
        "behind": [
            "$3",
            "$3) e",
            "1) head",
            "e.position >= head.position",
            "e.position IS NOT NULL",
            "h.head",
            "head.status = 'waiting'",
        ],
        "due": ["e.run_at <= now", "head.run_at <= now"],
        PLUMBING: [
            "e.ordering_key = line.key",
            "e.topic = line.topic",
            "h.ordering_key = line.key",
            "h.topic = line.topic",
        ],
    },
    "inboxd/store/sql/events/due_heads.sql": {
        "ahead": ["e.run_at, e.id) > (to_timestamp(lane.after_at), lane.after_id"],
        "behind": ["$5", "$5) e", "e.head::integer = 1"],
        "dead": ["e.status LIKE 'waiting'"],
        "due": ["e.run_at <= now"],
        "kept": ["e.type = lane.type"],
        PLUMBING: ["e.topic = lane.topic"],
    },
    "inboxd/store/sql/events/try_buckets.sql": {
        "visited": ["pg_try_advisory_xact_lock(hashtext('{schema}/' || line.topic), line.bucket"],
        PLUMBING: ["$3"],
    },
    "inboxd/store/sql/topics/try_slots.sql": {
        "full": ["1", "pg_try_advisory_xact_lock(hashtext('{schema}.slots.' || t.topic), slot"],
    },
    "inboxd/store/sql/relays/lease_buckets.sql": {
        "leased": [
            "NOT EXISTS",
            "l.bucket = b.bucket",
            "l.taken_at < statement_timestamp",
            "l.topic = b.topic",
            "l.worker_id <> $1::uuid",
            "l.worker_id = $1::uuid",
            "l.worker_id IS NULL",
            "w.id = l.worker_id",
            "w.state IN ('running', 'draining'",
        ],
        "nobody": ["state = 'running'"],
        "visited": ["pg_try_advisory_xact_lock(hashtext('{schema}/' || f.topic), f.bucket"],
        PLUMBING: ["$4", "CONFLICT (topic, bucket) DO", "id = $1::uuid"],
    },
    "inboxd/store/sql/chunks/open_lines.sql": {
        "ahead": ["$3"],
        "behind": ["h.head", "h.status = 'waiting'"],
        "chunk": ["h.updated_at > h.created_at"],
        "due": ["h.run_at <= clock_timestamp"],
        PLUMBING: [
            "$4",
            "1) h",
            "1) lined_up",
            "h.ordering_key = line.key",
            "h.topic = $1",
            "l.ordering_key = line.key",
            "l.position IS NOT NULL",
            "l.topic = $1",
        ],
    },
    "inboxd/store/sql/chunks/complete_chunks.sql": {
        "chunk": [
            "$3::integer IS NULL",
            "1) - h.position + 1 >= $3",
            "1) h",
            "1000) l",
            "cardinality($4::text[]) = 0",
            "e.attempts = 0",
            "e.head",
            "e.id = ANY (ARRAY",
            "e.run_at > clock_timestamp",
            "e.updated_at <= e.created_at",
            "h.attempts = 0",
            "h.head",
            "h.ordering_key = line.key",
            "h.run_at > clock_timestamp",
            "h.status = 'waiting'",
            "h.topic = $1",
            "h.updated_at <= h.created_at",
            "l.ordering_key = line.key",
            "l.position IS NOT NULL",
            "l.topic = $1",
        ],
    },
    "inboxd/store/sql/events/read_horizon.sql": {
        "producer": [
            "NOT EXISTS",
            "datname = current_database",
            "drawn.newest IS NOT NULL",
            "hashtext(t.name)::oid = ANY (writer.topics",
            "hashtext(t.name)::oid = k.hash",
            "l.classid = hashtext('{schema}.order')::oid",
            "l.classid = hashtext('{schema}.order.topics')::oid",
            "l.classid IN (hashtext('{schema}.order')::oid, hashtext('{schema}.order.topics')::oid",
            "l.database =",
            "l.granted",
            "l.locktype = 'advisory'",
            "l.locktype = 'relation'",
            "l.mode = 'RowExclusiveLock'",
            "l.objsubid = 2",
            "l.relation = '{schema}.events'::regclass",
            "writer.buckets IS NOT NULL) held",
        ],
    },
    "migrations/functions/claim_limited.sql": {
        "ahead": [
            (
                "c.run_at, c.id) > (least(to_timestamp(lane.after_at), "
                "held.at - interval '100 ms'), lane.after_id"
            ),
        ],
        "busy": ["cardinality(ids) >= room", "room - cardinality(ids", "room <= 0", "room > 0"],
        "dead": ["c.status = 'pending'"],
        "due": ["c.run_at <= held.at"],
        "next": [
            "NOT EXISTS",
            "NOT k.mine",
            "SKIP LOCKED",
            "k.key <> ALL (ARRAY",
            "k.key <> ALL (more.mine",
            "k.mine), '{}'",
            "others IS NOT NULL",
        ],
        "nobody": ["state = 'running'"],
        "rate": [
            "c.at > held.at - make_interval(secs => period",
            (
                "held.claimed_at[cardinality(held.claimed_at)] > held.at - "
                "make_interval(secs => period / 100"
            ),
            "rate IS NOT NULL",
            "rate IS NULL",
        ],
        "suspect": ["c.crashes = 0", "of_group IS NULL", "suspect"],
        "total": [
            "counted_at IS DISTINCT",
            "held.counted_at BETWEEN held.at - interval '10 seconds'",
            "total IS NOT NULL",
            "total IS NULL",
        ],
        "unserved": ["c.type = lane.type", "cardinality(lane_types) = 0"],
        PLUMBING: [
            "CONFLICT DO NOTHING",
            "NOT FOUND",
            "alone",
            "c.attempts = 0",
            "c.expires_at IS NOT NULL",
            "c.id = ANY (ids)))), '{}'",
            "c.id = n.id",
            "c.id BETWEEN found.id",
            "c.ordering_key IS NOT NULL",
            "c.priority = lane.priority",
            "c.queue = of_queue",
            "cardinality(ids) = 0",
            "cardinality(keys) > 0",
            "found.id",
            "found.position = 1",
            "held.at",
            "id = worker",
            "l.name = of_queue",
            "lanes_first = (step = 1",
            "more.keys IS NOT NULL",
            "name = of_queue",
            "p.key IS NOT NULL",
        ],
    },
    "migrations/functions/pick_lines.sql": {
        "ahead in line": ["share", "share)) r"],
        "batch": ["c.needs = 0"],
        "behind": [
            "1) holder",
            "at_once = 1",
            "blocking",
            "c.line_at IS NOT NULL",
            "c.line_at IS NULL",
            "c.started_at > until",
            "c.status >=",
            "c.worker_id IS DISTINCT",
            "holder.id IS NULL",
            "holder.status = 'waiting'",
            "until IS NULL",
        ],
        "busy": ["room"],
        "dead": ["c.status = 'waiting'"],
        "due": ["c.run_at <= at", "holder.run_at <= at"],
        "key": ["'running'", "at_once", "c.status BETWEEN 'running'", "running.rows = 0"],
        "next": [
            "SKIP LOCKED",
            "c.id = ANY (front.ids",
            "cardinality(locked) = cardinality(front.ids",
            "front.ids IS NULL",
            "front.ids[i] = ANY (locked",
            "front.lines[i] = ended",
            "front.mine",
        ],
        "suspect": ["c.crashes = 0", "holder.crashes = 0"],
        "unserved": ["front.types[i] = ANY (types"],
        PLUMBING: ["c.ordering_key = k.key", "c.queue = of_queue", "true"],
    },
    "migrations/functions/pick_suspects.sql": {
        "behind": [
            "at_once = 1",
            "blocking",
            "e.line_at IS NOT NULL",
            "e.ordering_key = c.ordering_key",
            "e.queue = of_queue",
            "e.status >=",
            "e.status, e.line_at, e.id) < ('waiting', c.line_at, c.id",
        ],
        "due": ["c.run_at <= clock_timestamp"],
        "key": ["at_once"],
        "next": ["SKIP LOCKED"],
        "suspect": [
            "c.suspect_group BETWEEN coalesce(of_group, '00000000-0000-0000-0000-000000000000'",
            "c.suspect_group IS NOT NULL",
        ],
        "unserved": ["c.type = ANY (types"],
        PLUMBING: [
            "'pending'",
            "'waiting'",
            "coalesce(of_group, 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "most",
        ],
    },
    "migrations/functions/still_running.sql": {
        "total": [
            "c.id BETWEEN known.id",
            "c.queue = of_queue",
            "c.status = 'running'",
            "c.worker_id IS NOT NULL",
            "clock_timestamp",
            "counted_at IS NULL",
            "counted_at NOT BETWEEN clock_timestamp() - interval '10 seconds'",
            "known.id",
        ],
    },
    "migrations/functions/held_topics.sql": {
        "intake": ["i.finished_at IS NULL"],
    },
    "migrations/functions/is_unhandled.sql": {
        "kept": [
            "$1 = ANY (w.served_topics",
            "E'default\\n' || $2 = ANY (w.subscriptions",
            "EXISTS",
            "NOT (EXISTS",
            "pg_catalog.cardinality(w.subscriptions) = 0",
            "pg_catalog.starts_with(each, $1 || E'\\n'",
            "t.mode = 'batch'",
            "t.name = $1",
            "w.state IN ('running', 'draining'",
        ],
    },
}
# The fingerprint of each statement when its conditions were last reviewed (`fingerprint_of`).
LOOKED_AT: Final[dict[str, str]] = {
    "inboxd/store/sql/commands/claim_commands.sql": "3f6e9a20177e",
    "inboxd/store/sql/commands/claim_suspects.sql": "f6834574df31",
    "inboxd/store/sql/commands/claim_limited.sql": "c14b7817e26c",
    "inboxd/store/sql/events/claim_events.sql": "c3a81864c252",
    "inboxd/store/sql/events/claim_event.sql": "890288bf4858",
    "inboxd/store/sql/events/claim_arrivals.sql": "ba1cf52e121a",
    "inboxd/store/sql/events/claim_lined_up.sql": "68446ee0434e",
    "inboxd/store/sql/events/due_heads.sql": "9e3ff9ff8059",
    "inboxd/store/sql/events/try_buckets.sql": "6fe3890c97b8",
    "inboxd/store/sql/topics/try_slots.sql": "17d1bb2ce653",
    "inboxd/store/sql/relays/lease_buckets.sql": "9a956c57b620",
    "inboxd/store/sql/chunks/open_lines.sql": "aeab6a7bdacc",
    "inboxd/store/sql/chunks/complete_chunks.sql": "896d9093aca0",
    "inboxd/store/sql/events/read_horizon.sql": "31ef434a4906",
    "migrations/functions/claim_limited.sql": "95627dc3ad33",
    "migrations/functions/pick_lines.sql": "efdf7300f602",
    "migrations/functions/pick_suspects.sql": "06c04dfdccdd",
    "migrations/functions/still_running.sql": "0ae336d96d1e",
    "migrations/functions/held_topics.sql": "9c0655a9deda",
    "migrations/functions/is_unhandled.sql": "34251d12230e",
}
# The questions that a worker asks before it claims, by function.
GATES: Final[dict[str, dict[str, list[str]]]] = {
    "inboxd.commands.admission.Admission.serves": {
        "paused queue": ["self._controls.allow('queue', queue, type_)"],
        "unserved": ["queue in wanted", "type_ in self._registry.commands", "wanted"],
    },
    "inboxd.commands.admission.Admission.has_room": {"busy": ["self.room(queue) > 0"]},
    "inboxd.engine.controls.Controls.allow": {
        "paused type": ["self.allow_pauses(kind, lane, type_)"],
        "breaker": ["self.breakers.allow(kind, lane, type_)", "self.breakers.shut"],
    },
    "inboxd.engine.controls.Controls.allow_pauses": {
        "disabled": ["kind == 'queue'", "lane in left", "left"],
        "paused queue": ["(kind, lane) in paused", "paused"],
        "paused type": ["('type', type_) in paused"],
    },
    "inboxd.engine.breakers.Breakers.allow": {
        "breaker": [
            "any((each.breaker in self.shut for each in handlers if not each.command_type))",
            "lane not in self._shut_topics",
            "self._shut_commands.isdisjoint(self._needed(kind, lane, type_))",
            "self.shut",
        ],
        PLUMBING: ["kind != 'topic'", "kind == 'queue'", "type_"],
    },
    "inboxd.events.sources.served_lines.ServedLines._is_open": {
        "kept": ["self._is_ours(topic)"],
        "paused topic": ["self._parts.controls.allow('topic', topic, '')"],
    },
    "inboxd.events.sources.served_lines.ServedLines._is_ours": {
        "kept": ["registry.takes(topic)"],
        PLUMBING: [
            "elsewhere",
            "self._relay is not None",
            "topic == self._relay",
            "topic in registry.chunks",
            "topic in registry.relays",
        ],
    },
    "inboxd.events.sources.served_lines.ServedLines._takes": {
        "kept": [
            "bool(self._parts.registry.handlers_of(topic, type_))",
            "topic in self._topics",
        ],
    },
    # A relay pauses for seconds after a failure, and while it ends: this passes by itself.
    "inboxd.events.relays.relay.RelayRunner._may_begin": {
        "next": [
            "full",
            "len(self._scopes) >= self._relay.concurrency",
            "self._may_go_on()",
            "time.monotonic() < self._not_before",
            "waits",
        ],
    },
    "inboxd.events.relays.relay.RelayRunner._may_go_on": {
        "next": [
            "ends",
            "self._holds_lease()",
            "self._parts.exclusive_run.wanted",
            "self._stopping",
            "self._suspended",
        ],
        "paused topic": ["self._parts.controls.allow('topic', self.name, '')"],
    },
    "inboxd.events.chunks.cursors.ChunkCursors.allows": {
        "paused reader": [
            "all((allow('topic', handler.topic, type_) for type_ in handler.readers))"
        ],
    },
    # Conditions that end by themselves within moments are a place: `next`.
    "inboxd.commands.processing.CommandProcessing.page": {
        "busy": ["free <= prefetch.ahead // 2", "self._admission.turned_away"],
        "exclusive": ["self._suspects.exclusive"],
        "next": ["contended", "self._limited.contended", "self._suspended"],
        PLUMBING: [
            "Page(0, busy=True)",
            "Page(taken, busy=True)",
            "Page(taken, full=full, busy=busy, again=again)",
            "await self._give_back_lost()",
            "self._lost_claims.due",
            "taken == 0",
            "taken > 0",
            "taken >= free",
        ],
    },
    "inboxd.events.processing.EventProcessing.page": {
        "exclusive": ["self._parts.exclusive_run.wanted"],
        PLUMBING: [
            "await self._rest()",
            "replace(page, rows=page.rows + begun) if begun else page",
        ],
    },
    "inboxd.events.page_order.serves": {
        "kept": ["bool(parts.registry.handlers_of(topic, type_))"],
        "paused topic": ["parts.controls.allow('topic', topic, type_)"],
    },
}
