-- Discard the counts of a partition of history, and any count in progress: it is to be counted, or it changes. Returns the
-- time by which end_census.sql knows whether its count was the last one that began.
--
-- The day's row in census stays locked until the transaction ends, so no count begins before the change is visible. The
-- lowest id of the day stays: rows of a day that is over are changed or removed. That of a count from the future goes, since
-- the clock was set back, and the day may get rows again.
-- called by: receive, return_partition, trim_partition, the daemon
-- roles: worker
-- locks: the day's row in census, and its counts
CREATE OR REPLACE FUNCTION {schema}.begin_census(wanted text, its_parent text) RETURNS timestamptz
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began timestamptz;
BEGIN
    INSERT INTO {schema}.census AS c (part, parent) VALUES (wanted, its_parent)
        ON CONFLICT (part) DO UPDATE SET begun_at = clock_timestamp(), counted_at = NULL, written = NULL,
                                       low_id = CASE WHEN greatest(c.begun_at, c.counted_at) > clock_timestamp() THEN NULL ELSE c.low_id END
    RETURNING begun_at INTO began;
    DELETE FROM {schema}.census_types t WHERE t.part = wanted;
    DELETE FROM {schema}.census_tenants t WHERE t.part = wanted;
    RETURN began;
END
$$;
