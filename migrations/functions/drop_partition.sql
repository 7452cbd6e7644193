-- Drop a retired partition that is detached.
--
-- false: it has more rows than were exported, so it was not dropped; NULL: another session has dropped it, or attached it
-- again.
-- called by: the daemon
-- roles: worker
-- locks: its row in retired; the partition, exclusively
CREATE OR REPLACE FUNCTION {schema}.drop_partition(wanted text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    exported bigint;
    there    bigint;
BEGIN
    SELECT r.rows INTO exported FROM {schema}.retired r
     WHERE r.part = wanted AND r.dropped_at IS NULL AND r.high <= now() - interval '1 day' FOR UPDATE;
    IF NOT FOUND OR to_regclass(format('{schema}.%I', wanted)) IS NULL
       OR EXISTS (SELECT FROM {schema}.every_partition WHERE part = wanted) THEN
        RETURN NULL;
    END IF;
    IF exported IS NOT NULL THEN
        EXECUTE format('SELECT count(*) FROM {schema}.%I', wanted) INTO there;
        IF there > exported THEN
            RETURN false;
        END IF;
    END IF;
    EXECUTE format('DROP TABLE {schema}.%I', wanted);
    UPDATE {schema}.retired SET dropped_at = clock_timestamp() WHERE part = wanted;
    DELETE FROM {schema}.trimmed WHERE part = wanted;
    RETURN true;
END
$$;
