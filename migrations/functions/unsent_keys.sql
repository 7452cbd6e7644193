-- The unique keys of a page's commands; NULL for commands whose command_id exists: they are sent once more, so they replace
-- and reject nothing. Holds the keys first, so that of two senders of one command the later one sees the other's command.
-- called by: send_command_arrays
-- roles: none
-- locks: as hold_unique_keys
CREATE OR REPLACE FUNCTION {schema}.unsent_keys(types text[], keys text[], command_ids uuid[]) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    PERFORM {schema}.hold_unique_keys(types, keys);
    RETURN ARRAY(
        SELECT CASE WHEN NOT EXISTS (SELECT FROM {schema}.commands c WHERE c.command_id = g.id OFFSET 0) THEN g.key END
          FROM unnest(keys, command_ids) WITH ORDINALITY AS g(key, id, n) ORDER BY g.n);
END
$$;
