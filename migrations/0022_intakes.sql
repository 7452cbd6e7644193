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
    taken       bigint NOT NULL DEFAULT 0,  -- events that left the origin
    declared_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    opened_at   timestamptz,    -- when the declaration was made; NULL: it is only announced
    finished_at timestamptz,
    PRIMARY KEY (origin, type, topic)
);

-- The topics whose arrivals are to be left alone. Volatile, so that its snapshot is younger than what the
-- calling statement has read before.
CREATE FUNCTION {schema}.held_topics() RETURNS text[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT DISTINCT i.topic FROM {schema}.intakes i WHERE i.finished_at IS NULL);
END
$$;

-- The declaration of announced intakes: reserves ids. The caller's transaction has their rows locked.
--
-- A block mirrors the ids of what waits, so whoever takes an event knows its new id from the old one. Of what
-- no snapshot shows yet, ids that are not a million older are in it, and what statements that are under way
-- draw still; what is neither gets a new id, behind what came meanwhile.
CREATE FUNCTION {schema}.open_intakes(origins text[], types text[], topics text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    newest bigint;
    lowest bigint;
    lows   bigint[];
    base   bigint;
BEGIN
    -- Sequences know no transactions: two who reserve must not do it at once.
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.reserve'), 0);
    newest := coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0);
    FOR n IN 1..cardinality(origins) LOOP
        lowest := NULL;
        IF EXISTS (SELECT FROM {schema}.topics t WHERE t.name = topics[n] AND t.mode <> 'single') THEN
            IF types[n] = '' THEN
                SELECT min(w.id) INTO lowest FROM (SELECT e.id FROM {schema}.events e
                    WHERE e.status = 'pending' AND e.topic = origins[n] OFFSET 0) AS w;
            ELSE
                SELECT min(w.id) INTO lowest FROM (SELECT e.id FROM {schema}.events e
                    WHERE e.status = 'pending' AND e.topic = origins[n] AND e.type = types[n] OFFSET 0) AS w;
            END IF;
            lowest := greatest(0, least(lowest, newest - 1048576));
        END IF;
        lows := lows || lowest;
    END LOOP;
    newest := newest + 16384;
    -- What producers draw between the two halves of this expression is below the blocks.
    SELECT setval('{schema}.events_id_seq', s.last_value + 65536 + b.width) - b.width + 1 INTO base
      FROM {schema}.events_id_seq s, (SELECT sum(newest - low + 1)::bigint AS width FROM unnest(lows) AS low) AS b
     WHERE b.width > 0;
    FOR n IN 1..cardinality(origins) LOOP
        UPDATE {schema}.intakes i
           SET opened_at = clock_timestamp(), low = lows[n], shift = base - lows[n],
               high = CASE WHEN lows[n] IS NOT NULL THEN newest END
         WHERE i.origin = origins[n] AND i.type = types[n] AND i.topic = topics[n];
        base := base + coalesce(newest - lows[n] + 1, 0);
    END LOOP;
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
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    ids     bigint[];
    waiting {schema}.events;
    given   {schema}.events;
    said    jsonb;
    known   record;
    keyed   boolean;  -- the event's own key is to be recorded
    target  record;
    judged  record;
    left_it integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('{schema}.intake'), hashtext(of_origin || ' ' || of_type)) THEN
        RETURN NULL;
    END IF;
    IF of_type = '' THEN
        ids := ARRAY(SELECT e.id FROM {schema}.events e
                      WHERE e.status = 'pending' AND e.topic = of_origin AND e.mode = 'single'
                      ORDER BY e.topic, e.type, e.run_at, e.id LIMIT most FOR UPDATE SKIP LOCKED);
    ELSIF NOT EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = of_type AND s.topic = of_origin)
          AND EXISTS (SELECT FROM {schema}.subscriptions s WHERE s.type = of_type) THEN
        ids := ARRAY(SELECT e.id FROM {schema}.events e
                      WHERE e.status = 'pending' AND e.topic = of_origin AND e.type = of_type AND e.mode = 'single'
                      ORDER BY e.topic, e.type, e.run_at, e.id LIMIT most FOR UPDATE SKIP LOCKED);
    END IF;
    FOR waiting IN SELECT e.* FROM {schema}.events e WHERE e.id = ANY (ids)
                    ORDER BY e.dedup_key COLLATE "C", e.id
    LOOP
        left_it := left_it + 1;
        DELETE FROM {schema}.events e WHERE e.id = waiting.id;
        said := coalesce(waiting.payload, (SELECT b.payload FROM {schema}.bodies b
                                            WHERE b.id = waiting.body_id AND b.created_at = waiting.body_at));
        keyed := false;
        IF waiting.dedup_key IS NOT NULL AND of_type <> '' THEN
            DELETE FROM {schema}.dedup d
             WHERE d.topic = of_origin AND d.source = coalesce(waiting.source, '') AND d.key = waiting.dedup_key
               AND d.event_id = waiting.event_id
            RETURNING d.body_hash, d.seen_at INTO known;
            keyed := FOUND;
        END IF;
        FOR target IN
            SELECT to_go.topic, coalesce(t.mode, 'single') AS mode, t.key_path, t.dedup_path,
                   CASE WHEN i.finished_at IS NULL AND waiting.id BETWEEN i.low AND i.high
                        THEN waiting.id + i.shift END AS id
              FROM (SELECT s.topic FROM {schema}.subscriptions s WHERE of_type <> '' AND s.type = of_type
                    UNION ALL SELECT of_origin WHERE of_type = '') AS to_go
              LEFT JOIN {schema}.topics t ON t.name = to_go.topic
              LEFT JOIN {schema}.intakes i ON i.origin = of_origin AND i.type = of_type AND i.topic = to_go.topic
        LOOP
            CONTINUE WHEN EXISTS (SELECT FROM {schema}.events e
                                   WHERE e.event_id = waiting.event_id AND e.topic = target.topic);
            given := waiting;
            given.topic := target.topic;
            given.mode := target.mode;
            given.payload := said;
            given.bucket := 0;
            IF given.mode <> 'single' THEN
                IF given.ordering_key IS NULL THEN
                    given.ordering_key := coalesce(said #>> target.key_path, '');
                    IF octet_length(given.ordering_key) > 255 THEN
                        given.ordering_key := md5(given.ordering_key);
                    END IF;
                END IF;
                given.bucket := {schema}.bucket_of(given.topic, given.ordering_key);
                given.status := 'waiting';
            END IF;
            IF given.dedup_key IS NULL AND target.dedup_path IS NOT NULL THEN
                given.dedup_key := {schema}.declared_key(target.dedup_path, given.event_id, said);
            END IF;
            IF given.dedup_key IS NOT NULL AND (keyed OR waiting.dedup_key IS NULL) THEN
                INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash, seen_at)
                VALUES (given.topic, coalesce(given.source, ''), given.dedup_key, given.event_id,
                        CASE WHEN keyed THEN known.body_hash
                             ELSE {schema}.body_hash(given.type, given.schema_version, said) END,
                        CASE WHEN keyed THEN known.seen_at ELSE now() END)
                ON CONFLICT DO NOTHING;
                IF NOT FOUND THEN
                    SELECT j.verdict, j.first_event INTO judged FROM {schema}.judge_event(given) AS j;
                    CONTINUE WHEN judged.verdict = 'again';
                    IF judged.verdict = 'contradiction' THEN
                        given.status := 'failed';
                        given.errors := {schema}.dedup_conflict(given.dedup_key, judged.first_event);
                        given.fingerprint := 'dedup-conflict:' || given.type;
                    END IF;
                END IF;
            END IF;
            given.payload := waiting.payload;
            given.id := target.id;
            IF given.id IS NULL THEN
                IF given.mode <> 'single' THEN
                    PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order'), given.bucket);
                END IF;
                given.id := nextval('{schema}.events_id_seq');
            END IF;
            INSERT INTO {schema}.events OVERRIDING SYSTEM VALUE SELECT (given).*;
        END LOOP;
    END LOOP;
    UPDATE {schema}.intakes i SET taken = i.taken + left_it
     WHERE left_it > 0 AND i.origin = of_origin AND i.type = of_type;
    RETURN left_it;
END
$$;

REVOKE EXECUTE ON FUNCTION {schema}.held_topics, {schema}.open_intakes, {schema}.take_events FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.intakes TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.held_topics, {schema}.open_intakes, {schema}.take_events TO {schema}_worker;
    END IF;
END
$do$;
