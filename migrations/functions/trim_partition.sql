-- Remove rows of some types from some pages of a partition whose day is over, from a page on. Returns how many.
-- called by: the daemon
-- roles: worker
-- locks: those rows
CREATE OR REPLACE FUNCTION {schema}.trim_partition(wanted text, types text[], page bigint, pages integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM {schema}.partitions
                    WHERE part = wanted AND parent <> 'bodies' AND high <= now() - interval '1 day') THEN
        RAISE EXCEPTION '% is no partition of history whose day is over', wanted
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    EXECUTE format('DELETE FROM {schema}.%I WHERE ctid >= $1 AND ctid < $2 AND type = ANY ($3)', wanted)
      USING format('(%s,0)', page)::tid, format('(%s,0)', page + pages)::tid, types;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;
