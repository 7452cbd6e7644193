-- Make the partitions of bodies, history and receipts, one a day (UTC), for some days ahead. Returns how many
-- were made.
--
-- By LIKE and ATTACH, which wait for no reader and stop no writer (CREATE … PARTITION OF would lock the parent). No
-- default partition: it would forbid concurrent detach.
-- called by: the migrations, the daemon
-- roles: worker
-- locks: the new tables; their parents, without stopping readers or writers
CREATE OR REPLACE FUNCTION {schema}.make_partitions(days_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent text;
    day    date;
    part   text;
    made   integer := 0;
BEGIN
    FOREACH parent IN ARRAY ARRAY['bodies', 'events_history', 'commands_history', 'receipts'] LOOP
        CONTINUE WHEN to_regclass('{schema}.' || parent) IS NULL;  -- 0003 comes before the tables of 0006
        FOR day IN SELECT generate_series(current_date - 1, current_date + days_ahead, '1 day')::date LOOP
            part := parent || to_char(day, '_YYYYMMDD');
            CONTINUE WHEN to_regclass('{schema}.' || part) IS NOT NULL;
            EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.%I INCLUDING DEFAULTS '
                           'INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE INCLUDING COMPRESSION)',
                           part, parent);
            IF parent LIKE '%history' THEN
                -- It has no primary key: where it is published, each change of its rows would be refused.
                EXECUTE format('ALTER TABLE {schema}.%I REPLICA IDENTITY FULL', part);
            END IF;
            EXECUTE format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)',
                           parent, part, day::timestamptz, (day + 1)::timestamptz);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
