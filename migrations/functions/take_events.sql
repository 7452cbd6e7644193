-- Move up to `most` events that wait in a topic, or those of one type, to the topics that declarations name now. Returns
-- how many left the topic; NULL if another session moves them at this moment.
--
-- The result is as if accept_event had known the declaration: mode, ordering key, dedup key, judgement of duplicates; and a
-- topic that has the event already does not get it twice. A dedup key moves along, with the time at which it was seen; an
-- event whose key is recorded for another event, or not recorded any more, was judged before. The short lock timeout lets
-- producers with the same keys go first, before the server looks for a deadlock. The changed numbers of events of past days
-- are kept in statement_moves for the daily statement.
-- called by: the daemon
-- roles: worker
-- locks: the intake; the rows, SKIP LOCKED; their records in dedup, waited for 200 ms at most
CREATE OR REPLACE FUNCTION {schema}.take_events(of_origin text, of_type text, most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    ids   bigint[];
    page  {schema}.events[];
    rest  record;
    given {schema}.events;
    judge record;
    there integer[];
    tells text := coalesce(current_setting('inboxd.webhooks', true), '');
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('{schema}.intake'), hashtext(of_origin || ' ' || of_type)) THEN
        RETURN NULL;
    END IF;
    IF of_type = '' AND EXISTS (SELECT FROM {schema}.topics t WHERE t.name = of_origin AND t.mode <> 'single') THEN
        ids := ARRAY(SELECT e.id FROM {schema}.events e
                      WHERE e.status = 'pending' AND e.topic = of_origin AND e.mode = 'single'
                      ORDER BY e.topic, e.type, e.run_at, e.id LIMIT most FOR UPDATE SKIP LOCKED);
    ELSIF of_type <> ''
          AND NOT EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = of_type AND s.topic = of_origin)
          AND EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = of_type) THEN
        ids := ARRAY(SELECT e.id FROM {schema}.events e
                      WHERE e.status = 'pending' AND e.topic = of_origin AND e.type = of_type AND e.mode = 'single'
                      ORDER BY e.topic, e.type, e.run_at, e.id LIMIT most FOR UPDATE SKIP LOCKED);
    END IF;
    IF coalesce(cardinality(ids), 0) = 0 THEN
        RETURN 0;
    END IF;
    page := ARRAY(SELECT e FROM {schema}.events e WHERE e.id = ANY (ids));
    there := ARRAY(SELECT (SELECT count(*) FROM {schema}.events e WHERE e.event_id = w.event_id)
                     FROM unnest(page) WITH ORDINALITY AS w ORDER BY w.ordinality);
    DELETE FROM {schema}.events e WHERE e.id = ANY (ids);
    -- Endpoints were told of these events when they were written (events_emitted).
    PERFORM set_config('inboxd.webhooks', 'off', true);
    -- Before any other write: `is_taking` looks for this change, and from here on no other session can finish the intake.
    UPDATE {schema}.intakes i SET taken = i.taken + cardinality(ids)
     WHERE i.origin = of_origin AND i.type = of_type;
    -- Write events together that have no key or take it at once; judge the others one by one.
    FOR rest IN
        WITH moved AS (
            DELETE FROM {schema}.dedup d USING unnest(page) AS w
             WHERE of_type <> '' AND d.key BETWEEN w.dedup_key AND w.dedup_key AND d.topic = of_origin COLLATE "default"
               AND d.source = coalesce(w.source, '') AND d.event_id = w.event_id
            RETURNING d.event_id, d.body_hash, d.seen_at
        ), moves AS MATERIALIZED (SELECT * FROM moved),
        targets AS MATERIALIZED (
            SELECT g.topic, coalesce(t.mode, 'single') AS mode, t.key_path, t.relay, t.dedup_path,
                   i.low, i.high, i.shift, i.reserved, i.late_shift,
                   g.topic = min(g.topic) FILTER (WHERE t.mode <> 'single') OVER () AS leads
              FROM (SELECT s.topic FROM {schema}.subscriptions s WHERE of_type <> '' AND s.type = of_type
                    UNION ALL SELECT of_origin WHERE of_type = '') AS g
              LEFT JOIN {schema}.topics t ON t.name = g.topic
              LEFT JOIN {schema}.intakes i ON i.origin = of_origin AND i.type = of_type AND i.topic = g.topic
                                         AND i.finished_at IS NULL
        ), filled AS MATERIALIZED (
            SELECT w, g.topic, g.mode, said.payload, m.body_hash, m.seen_at,
                   w.dedup_key IS NULL OR m.event_id IS NOT NULL AS records,
                   coalesce(w.dedup_key, {schema}.declared_key(g.dedup_path, w.event_id, said.payload)) AS key,
                   CASE WHEN g.mode = 'single' THEN w.ordering_key
                        WHEN octet_length(said.found) > 255 THEN md5(said.found) ELSE said.found END AS line,
                   CASE WHEN g.mode = 'single' THEN nextval('{schema}.events_id_seq')
                        WHEN w.id BETWEEN g.low AND g.high THEN w.id + g.shift
                        WHEN w.id > g.reserved AND g.leads THEN w.id
                        WHEN w.id BETWEEN g.reserved + 1 AND g.reserved + 16384 THEN w.id + g.late_shift
                        END AS id
              FROM targets g
             CROSS JOIN unnest(page) AS w
              LEFT JOIN moves m ON m.event_id = w.event_id
             CROSS JOIN LATERAL (
                 SELECT b.payload, coalesce(w.ordering_key, b.payload #>> g.key_path,
                                            CASE WHEN g.relay THEN w.event_id::text ELSE '' END) AS found
                   FROM (SELECT coalesce(w.payload, (SELECT o.payload FROM {schema}.bodies o
                                                      WHERE o.id = w.body_id AND o.created_at = w.body_at))
                         OFFSET 0) AS b(payload)) AS said
             -- (A sub-select, not a join: the planner reads one event per row, whatever the statistics are.)
             WHERE (SELECT e.id FROM {schema}.events e
                     WHERE e.event_id = w.event_id AND e.topic = g.topic) IS NULL
        ), resolved AS MATERIALIZED (
            SELECT jsonb_populate_record(f.w, jsonb_build_object(
                       'id', f.id, 'topic', f.topic, 'mode', f.mode, 'ordering_key', f.line, 'dedup_key', f.key,
                       'bucket', CASE f.mode WHEN 'single' THEN 0 ELSE {schema}.bucket_of(f.topic, f.line) END,
                       'status', CASE f.mode WHEN 'single' THEN 'pending' ELSE 'waiting' END)) AS row,
                   (f.w).id AS was, f.id, f.payload, f.body_hash, f.seen_at, f.key IS NOT NULL AND f.records AS records
              FROM filled f
        ), recorded AS (
            INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash, seen_at)
            SELECT (r.row).topic, coalesce((r.row).source, ''), (r.row).dedup_key, (r.row).event_id,
                   coalesce(r.body_hash, {schema}.body_hash((r.row).type, (r.row).schema_version, r.payload)),
                   coalesce(r.seen_at, now())
              FROM resolved r WHERE r.records
             ORDER BY (r.row).dedup_key COLLATE "C", (r.row).topic COLLATE "C",
                      coalesce((r.row).source, '') COLLATE "C", r.was
            ON CONFLICT DO NOTHING
            RETURNING topic, event_id
        ), written AS (
            INSERT INTO {schema}.events OVERRIDING SYSTEM VALUE
            SELECT (r.row).* FROM resolved r
             WHERE r.id IS NOT NULL
               AND (NOT r.records OR ((r.row).topic, (r.row).event_id) IN (SELECT d.topic, d.event_id FROM recorded d))
            RETURNING topic, event_id
        )
        SELECT r.row, r.payload, r.records AND NOT EXISTS (
                   SELECT FROM recorded d WHERE d.topic = (r.row).topic AND d.event_id = (r.row).event_id) AS known
          FROM resolved r
         WHERE NOT EXISTS (SELECT FROM written w WHERE w.topic = (r.row).topic AND w.event_id = (r.row).event_id)
         ORDER BY r.was, (r.row).topic
    LOOP
        given := rest.row;
        IF rest.known THEN
            given.payload := rest.payload;
            SELECT j.verdict, j.first_event INTO judge FROM {schema}.judge_event(given) AS j;
            CONTINUE WHEN judge.verdict = 'again';
            given.payload := (rest.row).payload;
            IF judge.verdict = 'contradiction' THEN
                given.status := 'failed';
                given.errors := {schema}.dedup_conflict(given.dedup_key, judge.first_event);
                given.fingerprint := 'dedup-conflict:' || given.type;
            END IF;
        END IF;
        IF given.id IS NULL THEN
            PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order.topics'), hashtext(given.topic));
            PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order'), given.bucket);
            given.id := nextval('{schema}.events_id_seq');
        END IF;
        INSERT INTO {schema}.events OVERRIDING SYSTEM VALUE SELECT (given).*;
    END LOOP;
    INSERT INTO {schema}.statement_moves AS m (day, source, rows)
    SELECT moved.day, moved.source, sum(moved.rows)
      FROM (SELECT (w.created_at AT TIME ZONE 'UTC')::date AS day, coalesce(w.source, '') AS source,
                   (SELECT count(*) FROM {schema}.events e WHERE e.event_id = w.event_id)
                   - there[w.ordinality::integer] AS rows
              FROM unnest(page) WITH ORDINALITY AS w
             WHERE w.created_at < date_trunc('day', now(), 'UTC')) AS moved
     GROUP BY 1, 2 HAVING sum(moved.rows) <> 0 ORDER BY 1, 2
        ON CONFLICT (day, source) DO UPDATE SET rows = m.rows + excluded.rows;
    PERFORM set_config('inboxd.webhooks', tells, true);
    RETURN cardinality(ids);
END
$$;
