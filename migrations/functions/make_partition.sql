-- Make the partition of one day (UTC) of a table. Returns whether it was made; not if a table of its name is there,
-- attached or not.
--
-- By LIKE and ATTACH, which wait for no reader and stop no writer (CREATE … PARTITION OF would lock the parent). No
-- default partition: it would forbid concurrent detach.
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
    -- One lock for all: with one a day, two that make several would wait for each other.
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.partitions'), 0);
    -- Was somebody faster? The table is asked: to_regclass would remember that there was none.
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
