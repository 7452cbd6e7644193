-- Copy bodies of a range that unsettled or late rows need into today's partition, and point the rows to the copies.
--
-- A copy keeps its id and has a new time. Changes at most «most» rows of each table, each under its lock, so that a replay
-- or a settlement keeps the new place; locked rows are left for the next call. Returns how many rows were changed.
--
-- A late row is a row of history that was settled more than a day after its body was written. Its change moves it within
-- its day's partition, where a running count may miss it or count it twice: such a count is discarded; a finished count
-- stays true. The day's row in census is locked in either case, so no count begins before it can see the moved rows.
-- called by: the daemon
-- roles: worker
-- locks: the rows, SKIP LOCKED; then, of the days of late rows, the rows in census
CREATE OR REPLACE FUNCTION {schema}.keep_bodies(first timestamptz, past timestamptz, most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    of_table text;
    late     text;
    recount  text;
    changed  bigint;
    total    bigint := 0;
BEGIN
    FOREACH of_table IN ARRAY ARRAY['events', 'commands', 'events_history', 'commands_history'] LOOP
        late := '';
        recount := '';
        IF of_table LIKE '%history' THEN
            late := 'AND (r.finished_at - r.body_at) > interval ''1 day''';
            recount := format($q$, begun AS (
                INSERT INTO {schema}.census AS c (part, parent)
                SELECT DISTINCT p.relname::text, %L FROM moved JOIN pg_class p ON p.oid = moved.tableoid ORDER BY 1
                    ON CONFLICT (part) DO UPDATE SET begun_at = clock_timestamp() WHERE c.counted_at IS NULL
            )$q$, of_table);
        END IF;
        EXECUTE format($q$
            WITH held AS MATERIALIZED (
                SELECT r.tableoid, r.ctid, r.body_id, r.body_at FROM {schema}.%1$I r
                 WHERE r.body_at >= $1 AND r.body_at < $2 %2$s
                 LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED
            ), copied AS (
                INSERT INTO {schema}.bodies (id, created_at, payload, raw)
                SELECT b.id, now(), b.payload, b.raw
                  FROM (SELECT DISTINCT body_id, body_at FROM held) AS h
                  JOIN {schema}.bodies b ON b.id = h.body_id AND b.created_at = h.body_at
                    ON CONFLICT DO NOTHING
            ), moved AS (
                UPDATE {schema}.%1$I r SET body_at = now()
                  FROM held WHERE r.tableoid = held.tableoid AND r.ctid = held.ctid
                RETURNING r.tableoid
            )%3$s
            SELECT count(*) FROM moved
            $q$, of_table, late, recount) USING first, past, most INTO changed;
        total := total + changed;
    END LOOP;
    RETURN total;
END
$$;
