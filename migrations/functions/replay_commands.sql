-- Replay dead letters without an ordering key: new rows take their places, with the same payload, batch, unique key and
-- correlation; the old rows go to history. A function, so that an operator needs no privilege to write payloads.
--
-- A time by which it should have started is removed if it has passed. A row is skipped if another unsettled command has
-- its unique key, or if its batch was cancelled. Rows that wait for an old row wait for its successor, which gets the name
-- of a workflow's step. All edges are seen, since a session locks a row before it adds an edge to it. Waiting rows are
-- locked before their edges are changed, as in release. A concurrent call for the same rows waits, and then finds none of
-- them.
-- called by: the daemon
-- roles: operator, worker
-- locks: the rows and the commands that wait for them (hold_ending); the new ones, their edges and steps
CREATE OR REPLACE FUNCTION {schema}.replay_commands(ids bigint[], actor text, reason text)
    RETURNS TABLE (old_id bigint, new_id bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    replayed bigint[];
    successors bigint[];
    old_uuids uuid[];
    new_uuids uuid[];
BEGIN
    PERFORM {schema}.hold_ending(ids, ARRAY['failed']);
    WITH old AS MATERIALIZED (
        SELECT * FROM {schema}.commands c
         WHERE id = ANY (ids) AND status LIKE 'failed' AND ordering_key IS NULL
           AND NOT EXISTS (SELECT FROM {schema}.batches b WHERE b.id = c.batch_id AND b.ending IS NOT NULL OFFSET 0)
         ORDER BY id FOR UPDATE OF c
    ), new AS (
        INSERT INTO {schema}.commands
               (command_id, status, run_at, origin_kind, origin_id, replay_of, batch_id, correlation_id,
                causation_id, body_id, body_at, body_bytes, needs, awaited, sender,
                {each passing command: NAME},
                {each lasting command but command_id, run_at, correlation_id, causation_id: NAME})
        SELECT {schema}.new_uuid(), CASE WHEN needs > 0 THEN 'waiting' ELSE 'pending' END, clock_timestamp(),
               'replay', id, id, batch_id, coalesce(correlation_id, command_id::text), command_id, body_id, body_at,
               body_bytes, needs, awaited, sender,
               {each passing command: CASE WHEN NAME > clock_timestamp() THEN NAME END},
               {each lasting command but command_id, run_at, correlation_id, causation_id: NAME}
          FROM old ORDER BY type, unique_key, id
        ON CONFLICT DO NOTHING
        RETURNING id, command_id, replay_of
    ), gone AS (
        DELETE FROM {schema}.commands c USING new WHERE c.id BETWEEN new.replay_of AND new.replay_of
        RETURNING c.*, new.id AS successor, new.command_id AS successor_uuid
    ), kept AS (
        INSERT INTO {schema}.commands_history
               ({command but status, updated_at, awaited},
                status, updated_at, finished_at, awaited)
        SELECT {command but status, updated_at, awaited},
               'failed', clock_timestamp(), clock_timestamp(), false
          FROM gone
    ), listed AS (
        INSERT INTO {schema}.replays (kind, old_id, new_id, actor, reason)
        SELECT 'command', id, successor, $2, $3 FROM gone
    )
    SELECT array_agg(command_id ORDER BY id), array_agg(successor_uuid ORDER BY id),
           array_agg(id ORDER BY id), array_agg(successor ORDER BY id)
      INTO old_uuids, new_uuids, replayed, successors FROM gone;

    UPDATE {schema}.dependencies d SET needs = m.new
      FROM unnest(old_uuids, new_uuids) AS m(old, new) WHERE d.needs BETWEEN m.old AND m.old;
    UPDATE {schema}.dependencies d SET waiting = m.new
      FROM unnest(old_uuids, new_uuids) AS m(old, new) WHERE d.waiting BETWEEN m.old AND m.old;
    UPDATE {schema}.steps s SET member = m.new
      FROM unnest(old_uuids, new_uuids) AS m(old, new) WHERE s.member BETWEEN m.old AND m.old;
    RETURN QUERY SELECT * FROM unnest(replayed, successors);
END
$$;
