-- End a concurrent detach that was interrupted; nobody can detach another before.
--
-- It waits for old snapshots with the partition locked: whoever reads it from such a snapshot would wait for this, and
-- this for them. So it gives up long before PostgreSQL looks for deadlocks, and is tried again later.
-- called by: the daemon
-- roles: worker
-- locks: the partition and its table, for 50 ms at most
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
