-- Detach a partition without CONCURRENTLY, which no function can run.
--
-- The lock stops readers and writers, so it is waited for only briefly, held only while the catalogue is written, and
-- tried again later.
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
