-- Make the missing partitions for receipts: for days that a host's spool has outlived, or that a host's fast clock is ahead
-- by. Returns how many were made.
--
-- Also makes today's partitions of all tables, any of which may be missing: while no worker runs, only this function makes
-- them, and a restored backup has partitions of past days only.
--
-- Refuses (invalid_parameter_value) a day that is more than a year away, so that neither a wrong clock nor a sender makes
-- partitions without end. Also refuses a detached partition of a day that is more than one day away: the person who
-- detached it must decide.
-- called by: the daemon
-- roles: receiver, worker
-- locks: as make_partition
CREATE OR REPLACE FUNCTION {schema}.make_receipt_days(receipt_ids uuid[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    day  date;
    part text;
    made integer := {schema}.make_partitions(1);
BEGIN
    FOR day IN SELECT DISTINCT {schema}.receipt_time(r)::date FROM unnest(receipt_ids) AS r ORDER BY 1 LOOP
        IF abs(day - current_date) > 366 THEN
            RAISE EXCEPTION 'a receipt is of %, more than a year from today', day
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Correct the clock of the host that received it.';
        END IF;
        part := 'receipts' || to_char(day, '_YYYYMMDD');
        IF {schema}.make_partition('receipts', day) THEN
            made := made + 1;
        ELSIF abs(day - current_date) > 1 AND NOT EXISTS (
            SELECT FROM pg_inherits WHERE inhrelid = to_regclass('{schema}.' || part) AND NOT inhdetachpending) THEN
            RAISE EXCEPTION 'the table % is there, detached', part
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Attach it again, or rename it.';
        END IF;
    END LOOP;
    RETURN made;
END
$$;
