-- Send commands from plain SQL: a JSON array of objects whose keys are the arguments of send_command. Returns the same as
-- send_command_arrays.
-- called by: the daemon, producers
-- roles: producer, worker
-- locks: as send_command_arrays
CREATE OR REPLACE FUNCTION {schema}.send_commands(commands jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(commands, ARRAY[
        {each given command: 'NAME'}]);
    SELECT written.*
      FROM (SELECT {each stored command but unique_key: array_agg(r.NAME) AS NAMES},
                   array_agg(r.unique_key) FILTER (WHERE u.any_unique) AS unique_keys,
                   array_agg(r.on_conflict) FILTER (WHERE u.any_unique) AS on_conflicts
              FROM (SELECT value FROM jsonb_array_elements(commands) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   {each given command: NAME TYPE})
             CROSS JOIN (SELECT EXISTS (SELECT FROM jsonb_array_elements(commands) AS e(value)
                                         WHERE e.value ->> 'unique_key' IS NOT NULL) AS any_unique) AS u) AS a
     CROSS JOIN LATERAL {schema}.send_command_arrays(
           {each given command: a.NAMES}) AS written
     ORDER BY written.ordinal
$$;
