-- The commands and batches of events, a few of each event; of a replayed command only its newest row.
-- parameters: $1 bigint[] events, $2 uuid[] their event_ids, $3 timestamptz[] when they were created, $4 integer rows of
--             each, $5 interval: only commands that were settled at most that long after their event
-- returns: event, kind, id, type (the name of a batch), status, by event, kind and id
-- locks: nothing
WITH running AS MATERIALIZED (
    SELECT c.origin_id, c.id, c.type FROM {schema}.commands c
     WHERE c.status = 'running' AND c.origin_kind = 'event' AND c.origin_id = ANY ($1::bigint[])
), found AS (
    SELECT e.id AS event, c.kind, c.id, c.type, c.status,
           row_number() OVER (PARTITION BY e.id ORDER BY c.kind, c.id) AS place
      FROM unnest($1::bigint[], $2::uuid[], $3::timestamptz[]) AS e(id, uuid, created_at)
     CROSS JOIN LATERAL (
         (SELECT 'command' AS kind, c.id, c.type, c.status FROM {schema}.commands c
           WHERE c.causation_id = e.uuid AND c.batch_id IS NULL AND c.status <> 'running'
             AND c.origin_kind = 'event' AND c.origin_id = e.id LIMIT $4::integer)
         UNION ALL
         (SELECT 'command', r.id, r.type, 'running' FROM running r WHERE r.origin_id = e.id LIMIT $4)
         UNION ALL
         (SELECT 'command', h.id, h.type, h.status FROM {schema}.commands_history h
           WHERE h.causation_id = e.uuid AND h.batch_id IS NULL AND h.status <> 'failed'
             AND h.finished_at >= e.created_at AND h.finished_at < e.created_at + $5::interval
             AND h.origin_kind = 'event' AND h.origin_id = e.id LIMIT $4)
         UNION ALL
         (SELECT 'batch', b.id, b.name, b.status FROM {schema}.batches b
           WHERE b.causation_id = e.uuid AND b.origin_kind = 'event' AND b.origin_id = e.id LIMIT $4)) c
)
SELECT event, kind, id, type, status FROM found WHERE place <= $4 ORDER BY event, place
