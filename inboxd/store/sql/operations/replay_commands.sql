-- Dead letters without an ordering key run again as new rows, which take their places: the same payload,
-- batch, unique key and story; the old rows go to history. A deadline that has passed is lifted. A row
-- whose unique key another unsettled command holds, or whose batch was cancelled, is left alone. What waits for the old rows, and
-- their names as steps, are moved by replay_commands_edges.
-- parameters: $1 bigint[] ids, $2 text actor, $3 text reason
-- returns: old_id, new_id, old_uuid, new_uuid of each row that was replayed
-- locks: the rows (held already), and the new ones
WITH old AS MATERIALIZED (
    SELECT * FROM {schema}.commands c
     WHERE id = ANY ($1::bigint[]) AND status LIKE 'failed' AND ordering_key IS NULL
       AND NOT EXISTS (SELECT FROM {schema}.batches b WHERE b.id = c.batch_id AND b.ending IS NOT NULL OFFSET 0)
), new AS (
    INSERT INTO {schema}.commands
           (command_id, queue, type, schema_version, payload, priority, unique_key, tenant, entity_type,
            entity_id, status, max_attempts, run_at, deadline, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, body_id, body_at, body_bytes, needs,
            awaited)
    SELECT {schema}.new_uuid(), queue, type, schema_version, payload, priority, unique_key, tenant,
           entity_type, entity_id, CASE WHEN needs > 0 THEN 'waiting' ELSE 'pending' END, max_attempts,
           clock_timestamp(), CASE WHEN deadline > clock_timestamp() THEN deadline END, 'replay', id, id,
           batch_id, coalesce(correlation_id, command_id::text), command_id, traceparent, body_id,
           body_at, body_bytes, needs, awaited
      FROM old ORDER BY type, unique_key, id
    ON CONFLICT DO NOTHING
    RETURNING id, command_id, replay_of
), gone AS (
    DELETE FROM {schema}.commands c USING new WHERE c.id BETWEEN new.replay_of AND new.replay_of
    RETURNING c.*, new.id AS new_id, new.command_id AS new_uuid
), kept AS (
    INSERT INTO {schema}.commands_history
           ({command but status, updated_at, awaited}, status, updated_at, finished_at, awaited)
    SELECT {command but status, updated_at, awaited},
           'failed', clock_timestamp(), clock_timestamp(), false
      FROM gone
), listed AS (
    INSERT INTO {schema}.replays (kind, old_id, new_id, actor, reason)
    SELECT 'command', id, new_id, $2, $3 FROM gone
)
SELECT id AS old_id, new_id, command_id AS old_uuid, new_uuid FROM gone
