-- Cancel the unsettled command of a unique key, unless it runs.
-- called by: resolve_unique_keys
-- roles: none
-- locks: that row
CREATE OR REPLACE FUNCTION {schema}.cancel_unique(of_type text, key text) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT {schema}.put_away(ARRAY(SELECT id FROM {schema}.commands
                                    WHERE type = of_type AND unique_key = key AND status IN ('pending', 'waiting')),
                             'cancelled')
$$;
