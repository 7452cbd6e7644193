-- Events that were written before anybody had declared where they go are taken into their topics.
-- oldest code: 4
--
-- An intake is announced, and that has committed, before the declaration commits: from then on nothing that
-- arrives in the lines of its topics is processed, by whoever has read the horizon since (read_horizon.sql).
-- The declaration itself reserves a block of ids for each topic with lines, which is above all that any
-- worker may take without another reading, and below all that producers draw who know the declaration. So what
-- is taken, in any order and by any number of takers, stands in its own order and before what came later. The
-- intake is finished when all who wrote to the table after the declaration, and may not have known it, have
-- ended, and nothing waits any more (ADR 18).

CREATE TABLE {schema}.intakes (
    origin      text NOT NULL,  -- the topic in which events wait
    type        text NOT NULL,  -- of these events; '': of any
    topic       text NOT NULL,  -- which is to get them
    low         bigint,         -- ids from low to high, shifted, are in the block; NULL: the topic has no lines
    high        bigint,
    shift       bigint,
    reserved    bigint,         -- the last id of all blocks; 16384 above it, shifted, are in this one too
    late_shift  bigint,
    taken       bigint NOT NULL DEFAULT 0,  -- events that left the origin
    declared_at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when it was announced first
    announced_at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- and last
    opened_at   timestamptz,    -- when the declaration was made; NULL: it is only announced
    finished_at timestamptz,
    PRIMARY KEY (origin, type, topic)
);

-- What waits in `default` for a type that is subscribed to already died there, or will: it is taken when it is
-- replayed. (What is single in a topic with lines was written so on purpose, or before its mode changed: it stays.)
INSERT INTO {schema}.intakes (origin, type, topic, opened_at, finished_at)
SELECT 'default', s.type, s.topic, clock_timestamp(), clock_timestamp() FROM {schema}.subscriptions s
 WHERE NOT EXISTS (SELECT FROM {schema}.subscriptions own WHERE own.type = s.type AND own.topic = 'default');

-- The topics whose arrivals are to be left alone. Volatile, so that its snapshot is younger than what the
-- calling statement has read before.
CREATE FUNCTION {schema}.held_topics() RETURNS text[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT DISTINCT i.topic FROM {schema}.intakes i WHERE i.finished_at IS NULL);
END
$$;

-- Whether this very transaction takes events: it has written the intake, which producers may not. What is taken was
-- accepted once, by the bounds of its time (0023).
CREATE FUNCTION {schema}.is_taking() RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.intakes i WHERE i.xmin = pg_current_xact_id_if_assigned()::xid);
END
$$;

CREATE OR REPLACE FUNCTION {schema}.refuse_bytes(name text, size integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT {schema}.is_taking() THEN
        RAISE EXCEPTION '% has % bytes; at most 255 fit: shorten it, or put it into the payload', name, size
            USING ERRCODE = 'check_violation', COLUMN = name;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION {schema}.refuse_headers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF {schema}.is_taking() THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '%', CASE WHEN jsonb_typeof(NEW.headers) <> 'object'
            THEN format('headers must be a JSON object, not %s: name each value', jsonb_typeof(NEW.headers))
            ELSE format('headers have %s bytes as JSON; at most 16384 fit: put what is larger into the payload',
                        octet_length(NEW.headers::text)) END
        USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, COLUMN = 'headers';
END
$$;

-- The declaration of announced intakes: reserves ids. The caller's transaction has their rows locked.
--
-- A topic's block mirrors the ids of all that waits for it, so whoever takes an event knows its new id from the
-- old one. Of what no snapshot shows yet, ids that are not a million older are in it. What is written from
-- then on until the declaration commits has ids above all blocks already: it keeps them in the first of its
-- topics, and the other blocks have room for so many. What is in none gets a new id, behind what came meanwhile.
CREATE FUNCTION {schema}.open_intakes(origins text[], types text[], topics text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    newest bigint;
    lowest bigint;
    lows   bigint[];
    drawn  record;
BEGIN
    -- Sequences know no transactions: two who reserve must not do it at once.
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.reserve'), 0);
    newest := coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0);
    FOR n IN 1..cardinality(origins) LOOP
        lowest := NULL;
        IF EXISTS (SELECT FROM {schema}.topics t WHERE t.name = topics[n] AND t.mode <> 'single') THEN
            IF types[n] = '' THEN
                SELECT min(w.id) INTO lowest FROM (SELECT e.id FROM {schema}.events e
                    WHERE e.status = 'pending' AND e.topic = origins[n]
                    ORDER BY e.topic, e.type, e.run_at, e.id OFFSET 0) AS w;
            ELSE
                SELECT min(w.id) INTO lowest FROM (SELECT e.id FROM {schema}.events e
                    WHERE e.status = 'pending' AND e.topic = origins[n] AND e.type = types[n]
                    ORDER BY e.topic, e.type, e.run_at, e.id OFFSET 0) AS w;
            END IF;
            lowest := greatest(0, least(lowest, newest - 1048576));
        END IF;
        lows := lows || lowest;
    END LOOP;
    -- What producers draw between the two halves of this expression is below the blocks.
    SELECT s.last_value + 16384 AS newest, setval('{schema}.events_id_seq', s.last_value + 65536 + w.width) AS last, w.width
      INTO drawn
      FROM {schema}.events_id_seq s
     CROSS JOIN LATERAL (
           SELECT sum(s.last_value + 16384 - t.low + 1 + 16384)::bigint AS width
             FROM (SELECT min(low) AS low FROM unnest(topics, lows) AS o(topic, low) GROUP BY topic) AS t) AS w
     WHERE w.width > 0;
    UPDATE {schema}.intakes i
       SET opened_at = clock_timestamp(), low = block.low, high = CASE WHEN block.low IS NOT NULL THEN drawn.newest END,
           shift = drawn.last - drawn.width + block.until - 16384 - drawn.newest,
           reserved = CASE WHEN block.low IS NOT NULL THEN drawn.last END,
           late_shift = block.until - 16384 - drawn.width
      FROM unnest(origins, types, topics) AS given(origin, type, topic)
      JOIN (SELECT t.topic, t.low,
                   sum(drawn.newest - t.low + 1 + 16384) OVER (ORDER BY t.topic) AS until
              FROM (SELECT topic, min(low) AS low FROM unnest(topics, lows) AS o(topic, low) GROUP BY topic) AS t
           ) AS block ON block.topic = given.topic
     WHERE i.origin = given.origin AND i.type = given.type AND i.topic = given.topic AND i.opened_at IS NULL;
END
$$;

-- Takes up to `most` events that wait in a topic, or those of one type, to where they go by now. Returns how
-- many left it, NULL when somebody else is taking them just now.
--
-- As accept_event would have it, had the declaration been there: mode, ordering key, dedup key, judgement of
-- duplicates; and a topic that has an event already does not get it twice. A key moves along, with the time
-- at which it was seen; an event whose key is recorded for another one, or not any more, was judged before.
-- It gives way to producers with the same keys before the server looks for a deadlock.
CREATE FUNCTION {schema}.take_events(of_origin text, of_type text, most integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    ids   bigint[];
    page  {schema}.events[];
    rest  record;
    given {schema}.events;
    judge record;
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
    DELETE FROM {schema}.events e WHERE e.id = ANY (ids);
    -- Before anything is written: `is_taking` looks for it, and from here on nobody finishes the intake.
    UPDATE {schema}.intakes i SET taken = i.taken + cardinality(ids)
     WHERE i.origin = of_origin AND i.type = of_type;
    -- What takes its key at once, or has none, is written together; the rest is judged one by one.
    FOR rest IN
        WITH moved AS (
            DELETE FROM {schema}.dedup d USING unnest(page) AS w
             WHERE of_type <> '' AND d.key BETWEEN w.dedup_key AND w.dedup_key AND d.topic = of_origin COLLATE "default"
               AND d.source = coalesce(w.source, '') AND d.event_id = w.event_id
            RETURNING d.event_id, d.body_hash, d.seen_at
        ), moves AS MATERIALIZED (SELECT * FROM moved),
        targets AS MATERIALIZED (
            SELECT g.topic, coalesce(t.mode, 'single') AS mode, t.key_path, t.dedup_path,
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
                 SELECT b.payload, coalesce(w.ordering_key, b.payload #>> g.key_path, '') AS found
                   FROM (SELECT coalesce(w.payload, (SELECT o.payload FROM {schema}.bodies o
                                                      WHERE o.id = w.body_id AND o.created_at = w.body_at))
                         OFFSET 0) AS b(payload)) AS said
             -- (A sub-select for each is no join: no statistics make a walk over all events of it.)
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
            PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order'), given.bucket);
            given.id := nextval('{schema}.events_id_seq');
        END IF;
        INSERT INTO {schema}.events OVERRIDING SYSTEM VALUE SELECT (given).*;
    END LOOP;
    RETURN cardinality(ids);
END
$$;

REVOKE EXECUTE ON FUNCTION {schema}.held_topics, {schema}.is_taking, {schema}.open_intakes, {schema}.take_events
  FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.intakes TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.held_topics, {schema}.open_intakes, {schema}.take_events TO {schema}_worker;
    END IF;
END
$do$;
