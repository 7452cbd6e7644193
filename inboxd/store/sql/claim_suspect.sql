-- Lease one due command that was running when a worker died (crashes > 0).
-- A worker runs at most one of these at a time, so that poison does not convict its neighbours.
-- parameters: $1 uuid worker, $2 text[] types served, $3 text[] queues (none: all),
--             $4 text[] queues without room
-- returns: as claim_commands.sql, one row at most, lane = 0
-- locks: the worker's row FOR KEY SHARE, the row; rows that others hold are skipped
WITH alive AS MATERIALIZED (
    SELECT id FROM {schema}.workers WHERE id = $1::uuid AND state = 'running' FOR KEY SHARE
), picked AS MATERIALIZED (
    SELECT c.id FROM alive
     CROSS JOIN LATERAL (
         SELECT c.id FROM {schema}.commands c
          WHERE c.status = 'pending' AND c.crashes > 0 AND c.run_at <= now()
            AND c.type = ANY ($2::text[])
            AND (cardinality($3::text[]) = 0 OR c.queue = ANY ($3::text[]))
            AND c.queue <> ALL ($4::text[])
          ORDER BY c.run_at, c.id
          LIMIT 1
            FOR UPDATE SKIP LOCKED) c
)
UPDATE {schema}.commands c
   SET status = 'running', worker_id = $1::uuid, fence = c.fence + 1, started_at = clock_timestamp(),
       updated_at = clock_timestamp()
  FROM picked
 WHERE c.id BETWEEN picked.id AND picked.id
RETURNING c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority,
          {schema}.beginning(c.tenant) AS tenant, {schema}.beginning(c.entity_type) AS entity_type,
          {schema}.beginning(c.entity_id) AS entity_id, c.attempts, c.max_attempts, c.crashes, c.fence,
          date_part('epoch', c.run_at) AS run_at,
          c.deadline, c.deadline < clock_timestamp() AS late, c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of,
          c.batch_id, c.awaited, c.ordering_key,
          {schema}.beginning(c.correlation_id) AS correlation_id, c.causation_id,
          {schema}.beginning(c.traceparent) AS traceparent, c.body_id, c.body_at, c.body_bytes,
          date_part('epoch', clock_timestamp() - c.run_at) AS waited,
          date_part('epoch', clock_timestamp() - c.created_at) AS age, 0 AS lane
