-- Attach a retired partition again, since its rows are still needed. For history, the day's count is discarded: a session
-- that counted meanwhile did not find these rows, so the lowest id that it wrote is discarded, too.
-- called by: the daemon
-- roles: worker
-- locks: the partition; its table, without stopping readers or writers; the day's row in census
CREATE OR REPLACE FUNCTION {schema}.return_partition(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    retired {schema}.retired := {schema}.retired_partition(wanted);
BEGIN
    EXECUTE format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)',
                   retired.parent, wanted, retired.low, retired.high);
    DELETE FROM {schema}.retired WHERE part = wanted;
    IF retired.parent IN ('events_history', 'commands_history') THEN
        PERFORM {schema}.begin_census(wanted, retired.parent);
        UPDATE {schema}.census SET low_id = NULL WHERE part = wanted;
    END IF;
END
$$;
