-- Raise that another unsettled command has a unique key. It never returns; its type is that of an id.
-- called by: resolve_unique_keys, send_command_arrays
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.refuse_taken(of_type text, key text, holder uuid) RETURNS uuid
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a command % with the unique key % is unsettled: %', quote_ident(of_type), quote_literal(key), holder
        USING ERRCODE = 'IB006', HINT = 'on_conflict = keep leaves it and writes nothing, replace cancels it.';
END
$$;
