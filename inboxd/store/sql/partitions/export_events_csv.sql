-- The rows of some pages of a partition of history, to be copied out as csv.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive), $3 text first page, $4 text page behind the
--             last (tuple ids, such as (0,0)); the planner knows the times, so only one partition is read
-- returns: the columns; a payload that is in bodies is put back into its row
-- locks: nothing
SELECT h.id, h.event_id, h.topic, h.mode, h.type, h.schema_version, h.source, h.ordering_key, h.dedup_key, h.tenant,
       h.entity_type, h.entity_id, coalesce(h.payload, b.payload) AS payload, b.raw, h.headers, h.correlation_id,
       h.causation_id, h.traceparent, h.status, h.attempts, h.crashes, h.errors, h.occurred_at, h.created_at,
       h.finished_at, extract(epoch FROM h.duration) AS duration, h.worker_id, h.origin_kind, h.origin_id
  FROM {schema}.events_history h
  LEFT JOIN {schema}.bodies b ON b.id = h.body_id AND b.created_at = h.body_at
 WHERE h.finished_at >= $1 AND h.finished_at < $2 AND h.ctid >= $3::text::tid AND h.ctid < $4::text::tid
