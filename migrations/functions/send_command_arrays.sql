-- Send a page of commands: one array a column, as long as the first; NULL for a column that no row fills.
--
-- Returns a row for each, in the given order. A page of 1,000 costs a quarter less than the same rows as JSON, and plpgsql
-- keeps its plan. A plain INSERT, which holds no lock on a unique key, may take the key after all: then that command stays,
-- or the call fails. Rows whose producer chose the command_id are inserted in the order of these ids: two producers that
-- send the same ids in different orders would deadlock otherwise. Other rows keep the given order, so that their ids do.
-- The id of a duplicate is looked up by a volatile function, whose snapshot sees a row that another producer committed
-- meanwhile; it is NULL if that row was settled meanwhile.
-- called by: send_command, send_commands, producers
-- roles: producer, worker
-- locks: the new rows; with unique keys, what resolve_unique_keys locks
CREATE OR REPLACE FUNCTION {schema}.send_command_arrays(
    types text[], payloads jsonb[],
    {each given command but type, payload: NAMES TYPE[] DEFAULT NULL}
) RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    stays boolean[];
BEGIN
    PERFORM {schema}.refuse_ragged(
        {each given command: cardinality(NAMES)});
    PERFORM {schema}.refuse_deliveries(types);
    IF unique_keys IS NOT NULL THEN
        stays := {schema}.resolve_unique_keys(
            types, CASE WHEN command_ids IS NULL THEN unique_keys
                        ELSE {schema}.unsent_keys(types, unique_keys, command_ids) END, on_conflicts);
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.*, coalesce(g.given_id, {schema}.new_uuid()) AS command_id
          FROM unnest(command_ids, stays, on_conflicts,
                      {each stored command but command_id: send_command_arrays.NAMES}) WITH ORDINALITY
               AS g(given_id, stays, mode, {each stored command but command_id: NAME}, ordinal)
    ), written AS (
        INSERT INTO {schema}.commands
               (schema_version, payload, priority, run_at,
                {each stored command but schema_version, payload, priority, run_at: NAME})
        SELECT coalesce(schema_version, 1), coalesce(payload, '{}'), coalesce(priority, 0), coalesce(run_at, now()),
               {each stored command but schema_version, payload, priority, run_at: NAME}
          FROM given WHERE stays IS DISTINCT FROM true ORDER BY given_id, ordinal
        ON CONFLICT DO NOTHING
        RETURNING id, command_id
    )
    SELECT g.ordinal, coalesce(w.id, kept.id),
           CASE WHEN g.mode = 'reject' AND kept.command_id <> g.command_id
                 AND kept.command_id <> ALL (ARRAY(SELECT o.command_id FROM written o))
                THEN {schema}.refuse_taken(g.type, g.unique_key, kept.command_id)
                ELSE coalesce(kept.command_id, g.command_id) END,
           w.id IS NULL OR row_number() OVER (PARTITION BY g.command_id ORDER BY g.ordinal) > 1
      FROM given g LEFT JOIN written w ON w.command_id = g.command_id
      LEFT JOIN LATERAL {schema}.kept_command(g.command_id, g.type, g.unique_key) kept ON w.id IS NULL
     ORDER BY g.ordinal;
END
$$;
