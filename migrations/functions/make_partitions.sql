-- Make the partitions of bodies, history and receipts, one a day (UTC), for «days_ahead» days ahead. Returns how many were
-- made.
-- called by: the migrations, make_receipt_days, the daemon
-- roles: worker
-- locks: as make_partition
CREATE OR REPLACE FUNCTION {schema}.make_partitions(days_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent text;
    day    date;
    made   integer := 0;
BEGIN
    FOREACH parent IN ARRAY ARRAY['bodies', 'events_history', 'commands_history', 'receipts'] LOOP
        CONTINUE WHEN to_regclass('{schema}.' || parent) IS NULL;  -- 0003 comes before the tables of 0006
        FOR day IN SELECT generate_series(current_date - 1, current_date + days_ahead, '1 day')::date LOOP
            made := made + {schema}.make_partition(parent, day)::integer;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
