-- The topics whose arrivals must not be processed yet.
--
-- Volatile, so that its snapshot is younger than what the calling statement has read before.
-- called by: the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.held_topics() RETURNS text[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT DISTINCT i.topic FROM {schema}.intakes i WHERE i.finished_at IS NULL);
END
$$;
