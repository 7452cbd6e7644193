-- Detach a partition without CONCURRENTLY, which a function cannot run.
--
-- The lock stops readers and writers, so this waits for it at most 50 ms and holds it only while the catalogue is written;
-- the daemon tries again later.
-- called by: the daemon
-- roles: worker
-- locks: the partition and its table, exclusively, waited for 50 ms at most
CREATE OR REPLACE FUNCTION {schema}.leave_partition(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
BEGIN
    EXECUTE format('ALTER TABLE {schema}.%I DETACH PARTITION {schema}.%I',
                   ({schema}.retired_partition(wanted)).parent, wanted);
END
$$;
