-- Make the partition of one day (UTC) of a table. Returns whether it was made: false if a table of that name exists,
-- attached or not.
--
-- LIKE and ATTACH wait for no reader and stop no writer (CREATE … PARTITION OF would lock the parent). The parent has no default
-- partition: it would forbid concurrent detach.
-- called by: make_partitions, make_receipt_days
-- roles: none
-- locks: the new table; its parent, without stopping readers or writers; others who make one
CREATE OR REPLACE FUNCTION {schema}.make_partition(parent text, day date) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    part text := parent || to_char(day, '_YYYYMMDD');
BEGIN
    IF to_regclass('{schema}.' || part) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- One lock for all days: with one lock a day, two sessions that make several partitions could deadlock.
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.partitions'), 0);
    -- Has another session made it meanwhile? Read pg_class: to_regclass may answer from its cache that no table exists.
    PERFORM FROM pg_class c WHERE c.relnamespace = '{schema}'::regnamespace AND c.relname = part;
    IF FOUND THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.%I INCLUDING DEFAULTS '
                   'INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE INCLUDING COMPRESSION)', part, parent);
    IF parent LIKE '%history' THEN
        -- It has no primary key: where it is published, each change of its rows would be refused.
        EXECUTE format('ALTER TABLE {schema}.%I REPLICA IDENTITY FULL', part);
    END IF;
    EXECUTE format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)',
                   parent, part, day::timestamptz, (day + 1)::timestamptz);
    RETURN true;
END
$$;
