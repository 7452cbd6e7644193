-- Delete rows of some types from `pages` pages of a past day's partition, from the page `page` on. Discards the count of
-- that day, and keeps the numbers that the daily statement needs of the rows. Returns how many rows it deleted.
-- called by: the daemon
-- roles: worker
-- locks: those rows; the day's row in census; what was removed of the same days and sources
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
    IF its_parent = 'events_history' THEN
        EXECUTE format(
            'WITH gone AS (DELETE FROM {schema}.%I WHERE ctid >= $1 AND ctid < $2 AND type = ANY ($3)'
            '              RETURNING (created_at AT TIME ZONE ''UTC'')::date AS day, coalesce(source, '''') AS source,'
            '                        CASE WHEN {schema}.is_erased(errors) THEN ''erased'' ELSE status END AS status),'
            ' counted AS (SELECT day, source, status, count(*) AS rows FROM gone GROUP BY 1, 2, 3),'
            ' kept AS (INSERT INTO {schema}.statement_trimmed AS t (day, source, status, rows)'
            '          SELECT day, source, status, rows FROM counted ORDER BY 1, 2, 3'
            '          ON CONFLICT (day, source, status) DO UPDATE SET rows = t.rows + excluded.rows)'
            ' SELECT coalesce(sum(rows), 0) FROM counted', wanted)
          INTO removed
         USING format('(%s,0)', page)::tid, format('(%s,0)', page + pages)::tid, types;
    ELSE
        EXECUTE format('DELETE FROM {schema}.%I WHERE ctid >= $1 AND ctid < $2 AND type = ANY ($3)', wanted)
          USING format('(%s,0)', page)::tid, format('(%s,0)', page + pages)::tid, types;
        GET DIAGNOSTICS removed = ROW_COUNT;
    END IF;
    IF removed > 0 THEN
        PERFORM {schema}.begin_census(wanted, its_parent);
    END IF;
    RETURN removed;
END
$$;
