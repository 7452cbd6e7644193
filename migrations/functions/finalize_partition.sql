-- Finish a concurrent detach that was interrupted; no other partition can be detached before that.
--
-- It waits for old snapshots with the partition locked: a session that reads it under such a snapshot would wait for this
-- one, and this one for that. So it gives up long before PostgreSQL looks for deadlocks, and is tried again later.
-- called by: the daemon
-- roles: worker
-- locks: the partition and its table, for at most 50 ms
CREATE OR REPLACE FUNCTION {schema}.finalize_partition(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    of_table text := (SELECT parent FROM {schema}.every_partition WHERE part = wanted AND pending);
BEGIN
    IF of_table IS NOT NULL THEN
        EXECUTE format('ALTER TABLE {schema}.%I DETACH PARTITION {schema}.%I FINALIZE', of_table, wanted);
    END IF;
END
$$;
