-- A partition that is recorded as retired and whose day is over; raises an error for any other name.
-- called by: leave_partition, return_partition
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.retired_partition(wanted text) RETURNS {schema}.retired
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_ {schema}.retired;
BEGIN
    SELECT * INTO found_ FROM {schema}.retired r
     WHERE r.part = wanted AND r.dropped_at IS NULL AND r.high <= now() - interval '1 day';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'partition % is not written down as retired, or its day is not over', wanted
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN found_;
END
$$;
