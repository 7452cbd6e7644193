-- Deliver again what an endpoint took: new commands with the same payload, and so the same message id.
-- parameters: $1 bigint[] ids, $2 text actor, $3 text reason
-- returns: old_id, new_id of each
-- locks: the new rows
WITH old AS MATERIALIZED (
    SELECT * FROM {schema}.commands_history
     WHERE id = ANY ($1::bigint[]) AND type = 'webhook.deliver' AND status <> 'failed'
), new AS (
    INSERT INTO {schema}.commands
           (queue, type, schema_version, payload, priority, ordering_key, tenant, entity_type, entity_id, max_attempts,
            run_at, origin_kind, origin_id, replay_of, correlation_id, causation_id, traceparent, body_id, body_at,
            body_bytes)
    SELECT queue, type, schema_version, payload, priority, ordering_key, tenant, entity_type, entity_id, max_attempts,
           clock_timestamp(), 'replay', id, id, coalesce(correlation_id, command_id::text), command_id, traceparent,
           body_id, body_at, body_bytes
      FROM old ORDER BY id
    RETURNING id, replay_of
)
INSERT INTO {schema}.replays (kind, old_id, new_id, actor, reason)
SELECT 'command', replay_of, id, $2, $3 FROM new
RETURNING old_id, new_id
