-- Remember which sources a receiver receives.
-- called by: trigger receivers_begin, trigger receivers_receive
-- roles: none
-- locks: the new rows
CREATE OR REPLACE FUNCTION {schema}.keep_sources() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    INSERT INTO {schema}.received_sources (source)
    SELECT s FROM (SELECT DISTINCT unnest(NEW.sources) AS s) AS named
     WHERE NOT EXISTS (SELECT FROM {schema}.received_sources r WHERE r.source = s OFFSET 0)
     ORDER BY s COLLATE "C"
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
