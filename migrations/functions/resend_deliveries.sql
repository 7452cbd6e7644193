-- Send settled deliveries again: new commands with the same payload, hence the same message id. A function, so that an
-- operator needs no privilege to write payloads.
-- called by: the daemon
-- roles: operator, worker
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.resend_deliveries(ids bigint[], actor text, reason text)
    RETURNS TABLE (old_id bigint, new_id bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH old AS MATERIALIZED (
        SELECT * FROM {schema}.commands_history
         WHERE id = ANY (ids) AND type = 'webhook.deliver' AND status <> 'failed'
    ), new AS (
        INSERT INTO {schema}.commands
               (queue, type, schema_version, payload, priority, ordering_key, tenant, entity_type, entity_id,
                max_attempts, run_at, origin_kind, origin_id, replay_of, correlation_id, causation_id, traceparent,
                body_id, body_at, body_bytes)
        SELECT queue, type, schema_version, payload, priority, ordering_key, tenant, entity_type, entity_id,
               max_attempts, clock_timestamp(), 'replay', id, id, coalesce(correlation_id, command_id::text),
               command_id, traceparent, body_id, body_at, body_bytes
          FROM old ORDER BY id
        RETURNING id, replay_of
    )
    INSERT INTO {schema}.replays (kind, old_id, new_id, actor, reason)
    SELECT 'command', new.replay_of, new.id, $2, $3 FROM new
    RETURNING old_id, new_id
$$;
