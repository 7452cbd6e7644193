-- The unique keys of a page's commands, but of those whose command_id is there: these are sent once more, and replace and
-- reject nothing. The keys are held, so that of two senders of one command the later one sees the other's.
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
