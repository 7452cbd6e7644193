-- Remove rows of some types from some pages of a partition whose day is over, from a page on; what was counted of that day
-- is forgotten. Returns how many.
-- called by: the daemon
-- roles: worker
-- locks: those rows; the day's row in census
CREATE OR REPLACE FUNCTION {schema}.trim_partition(wanted text, types text[], page bigint, pages integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its_parent text;
    removed    bigint;
BEGIN
    SELECT p.parent INTO its_parent FROM {schema}.partitions p
     WHERE p.part = wanted AND p.parent <> 'bodies' AND p.high <= now() - interval '1 day';
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is no partition of history whose day is over', wanted
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('DELETE FROM {schema}.%I WHERE ctid >= $1 AND ctid < $2 AND type = ANY ($3)', wanted)
      USING format('(%s,0)', page)::tid, format('(%s,0)', page + pages)::tid, types;
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed > 0 THEN
        PERFORM {schema}.begin_census(wanted, its_parent);
    END IF;
    RETURN removed;
END
$$;
