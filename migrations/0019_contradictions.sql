-- Reception: a contradiction that is sent again is known, and what is not written leaves no key.
-- oldest code: 4
--
-- What contradicts is recorded in `dedup` too, under a key that tells what it said: so it becomes one dead
-- letter, however often and by however many it is sent, for as long as its window. And an event_id that is
-- unsettled in a topic and comes with another key does not keep that key, which belongs to an event that is
-- still to come. Only what is not the first of its key, or is not written, pays for either: asking for the
-- event_id before each key is recorded made plain INSERT a tenth slower.

-- The key of what contradicts a key.
CREATE FUNCTION {schema}.contradiction(key text, saying bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT key || E'\n' || 'contradicted: ' || saying::text
$$;

-- What becomes of an event that could not take its key at once. 'again': it is not written. 'contradiction':
-- it said something else than first_event, which has the key, and becomes a dead letter; if an event with its
-- event_id is unsettled, it cannot, and is told only. 'first': the key was purged at this very moment.
CREATE FUNCTION {schema}.judge_event(given {schema}.events, OUT verdict text, OUT first_event uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    says      bigint := {schema}.body_hash(given.type, given.schema_version, given.payload);
    but       text := {schema}.contradiction(given.dedup_key, says);
    conflict  boolean;
    unsettled boolean;
    letter    uuid;  -- the dead letter that said the same
BEGIN
    SELECT r.first_event, r.conflict INTO first_event, conflict
      FROM {schema}.remember(given.topic, given.source, given.dedup_key, given.event_id, says) AS r;
    IF first_event IS NULL THEN
        verdict := 'first';
        RETURN;
    END IF;
    IF conflict THEN
        unsettled := EXISTS (SELECT FROM {schema}.events e
                              WHERE e.event_id = given.event_id AND e.topic = given.topic);
        IF unsettled THEN
            SELECT d.event_id INTO letter FROM {schema}.dedup d
             WHERE d.topic = given.topic AND d.source = coalesce(given.source, '') AND d.key = but;
        ELSE
            SELECT r.first_event INTO letter
              FROM {schema}.remember(given.topic, given.source, but, given.event_id, says) AS r;
        END IF;
        conflict := letter IS NULL;
    END IF;
    verdict := CASE WHEN conflict AND NOT unsettled THEN 'contradiction' ELSE 'again' END;
    INSERT INTO {schema}.duplicates (topic, source, key, type, event_id, first_event, conflict)
    VALUES (given.topic, coalesce(given.source, ''), given.dedup_key, given.type, given.event_id,
            coalesce(letter, first_event), conflict);
    IF conflict THEN
        RAISE WARNING 'the dedup key % of the topic % belongs to event %, which said something else',
            quote_literal(given.dedup_key), quote_literal(given.topic), first_event
            USING ERRCODE = 'IB008', HINT = CASE verdict
                WHEN 'again' THEN 'Nothing is written: an event with this event_id is unsettled.'
                ELSE 'The event is kept as a dead letter: dismiss or replay it.' END;
    END IF;
END
$$;

-- As 0013 has it, but: what could not take its key at once is judged apart, and the copies are counted.
CREATE OR REPLACE FUNCTION {schema}.accept_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    declared record;
    judged   record;
BEGIN
    IF NEW.topic IS NULL THEN
        SELECT s.topic, t.mode, t.key_path, t.dedup_path,
               (SELECT count(*) FROM {schema}.subscriptions o WHERE o.type = s.type AND o.topic > s.topic) AS copies
          INTO declared
          FROM {schema}.subscriptions s LEFT JOIN {schema}.topics t ON t.name = s.topic
         WHERE s.type = NEW.type ORDER BY s.topic LIMIT 1;
        NEW.topic := coalesce(declared.topic, 'default');
        IF declared.copies > 0 THEN
            PERFORM {schema}.copy_event_to(NEW, declared.copies);
        END IF;
    ELSE
        SELECT t.mode, t.key_path, t.dedup_path INTO declared FROM {schema}.topics t WHERE t.name = NEW.topic;
    END IF;
    IF NEW.mode IS NULL THEN
        NEW.mode := coalesce(declared.mode, 'single');
    ELSIF NEW.mode <> coalesce(declared.mode, CASE NEW.mode WHEN 'batch' THEN 'single' ELSE NEW.mode END) THEN
        RAISE EXCEPTION 'an event of the topic % has the mode %, but %', quote_literal(NEW.topic), NEW.mode,
            CASE WHEN declared.mode IS NULL THEN 'no topic of that name is declared'
                 ELSE 'the topic is declared as ' || declared.mode END
            USING ERRCODE = 'IB007', HINT = 'Leave the mode out: the topic has one.';
    END IF;
    IF NEW.mode <> 'single' AND NEW.ordering_key IS NULL THEN
        NEW.ordering_key := coalesce(NEW.payload #>> declared.key_path, '');
        IF octet_length(NEW.ordering_key) > 255 THEN
            NEW.ordering_key := md5(NEW.ordering_key);
        END IF;
    END IF;
    IF NEW.dedup_key IS NULL AND declared.dedup_path IS NOT NULL THEN
        NEW.dedup_key := {schema}.declared_key(declared.dedup_path, NEW.event_id, NEW.payload);
    END IF;
    IF NEW.dedup_key IS NOT NULL AND NEW.bucket IS NULL THEN
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        VALUES (NEW.topic, coalesce(NEW.source, ''), NEW.dedup_key, NEW.event_id,
                {schema}.body_hash(NEW.type, NEW.schema_version, NEW.payload))
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            SELECT j.verdict, j.first_event INTO judged FROM {schema}.judge_event(NEW) AS j;
            IF judged.verdict = 'again' THEN
                RETURN NULL;
            ELSIF judged.verdict = 'contradiction' THEN
                -- Its bucket is that of its line: there it will stand, if it is replayed.
                NEW.bucket := CASE NEW.mode WHEN 'single' THEN 0
                              ELSE {schema}.bucket_of(NEW.topic, NEW.ordering_key) END;
                NEW.status := 'failed';
                NEW.errors := {schema}.dedup_conflict(NEW.dedup_key, judged.first_event);
                NEW.fingerprint := 'dedup-conflict:' || NEW.type;
                RETURN NEW;
            END IF;
        END IF;
    END IF;
    IF NEW.mode = 'single' THEN
        NEW.bucket := 0;
        RETURN NEW;
    END IF;
    NEW.bucket := {schema}.bucket_of(NEW.topic, NEW.ordering_key);
    NEW.status := 'waiting';
    PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order'), NEW.bucket);
    NEW.id := nextval('{schema}.events_id_seq');
    IF NEW.mode = 'batch' THEN
        NEW.created_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;

-- ---------------------------------------------------------------------------------- functions

-- known_event, copy_event and the type event_ids stay for calls that are under way when this runs, and for
-- nothing else: a later release drops them.
CREATE TYPE {schema}.emitted AS (id bigint, event_id uuid, conflict boolean);

-- What was there instead of an event that was not written; its snapshots are younger than the insert's. A key that
-- this event took, though the row that has its event_id has another one, is given back: it took it in this
-- transaction, before it was dropped.
CREATE FUNCTION {schema}.unwritten_event(
    of_type text, of_version integer, in_topic text, of_source text, with_key text, given_id uuid, saying jsonb
) RETURNS {schema}.emitted LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off AS $$
DECLARE
    says  bigint := {schema}.body_hash(of_type, coalesce(of_version, 1), coalesce(saying, '{}'));
    place record;
    taken boolean;
    known {schema}.emitted;
BEGIN
    SELECT r.topic, coalesce(of_source, '') AS source,
           coalesce(with_key, {schema}.declared_key(t.dedup_path, given_id, saying)) AS key INTO place
      FROM (SELECT coalesce(in_topic, (SELECT min(s.topic) FROM {schema}.subscriptions s WHERE s.type = of_type),
                            'default') AS topic) AS r
      LEFT JOIN {schema}.topics t ON t.name = r.topic;
    SELECT d.event_id, d.body_hash <> says, d.event_id = given_id AND d.seen_at = now()
      INTO known.event_id, known.conflict, taken
      FROM {schema}.dedup d WHERE d.topic = place.topic AND d.source = place.source AND d.key = place.key;
    IF taken THEN
        DELETE FROM {schema}.dedup d USING {schema}.events e
         WHERE d.topic = place.topic AND d.source = place.source AND d.key = place.key
           AND e.event_id = given_id AND e.topic = place.topic
           AND (e.dedup_key, coalesce(e.source, '')) IS DISTINCT FROM (place.key, place.source);
    END IF;
    IF known.conflict THEN
        SELECT d.event_id INTO known.event_id FROM {schema}.dedup d
         WHERE d.topic = place.topic AND d.source = place.source
           AND d.key = {schema}.contradiction(place.key, says);
    END IF;
    known.event_id := coalesce(known.event_id, given_id);
    known.conflict := coalesce(known.conflict, false);
    SELECT e.id INTO known.id
      FROM {schema}.events e WHERE e.event_id = known.event_id AND e.topic = place.topic;
    RETURN known;
END
$$;

-- As 0013 has it, but: it knows how many copies there are to be, and where one was not written, a key that it
-- took is given back.
CREATE FUNCTION {schema}.copy_event_to(given {schema}.events, copies bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO {schema}.events
           (event_id, topic, mode, type, schema_version, source, ordering_key, dedup_key, tenant, entity_type,
            entity_id, payload, headers, correlation_id, causation_id, traceparent, status, run_at, body_id,
            body_at, body_bytes, occurred_at, created_at)
    SELECT given.event_id, s.topic, given.mode, given.type, given.schema_version, given.source,
           given.ordering_key, given.dedup_key, given.tenant, given.entity_type, given.entity_id,
           given.payload, given.headers, given.correlation_id, given.causation_id, given.traceparent,
           given.status, given.run_at, given.body_id, given.body_at, given.body_bytes, given.occurred_at,
           given.created_at
      FROM {schema}.subscriptions s
     WHERE s.type = given.type AND s.topic > given.topic ORDER BY s.topic
    ON CONFLICT (event_id, topic) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written < copies THEN
        PERFORM {schema}.unwritten_event(given.type, given.schema_version, s.topic, given.source, given.dedup_key,
                                     given.event_id, given.payload)
           FROM {schema}.subscriptions s WHERE s.type = given.type AND s.topic > given.topic;
    END IF;
END
$$;

-- As 0013 has it, but: what contradicts and was not written is a conflict too, and the answer names its dead
-- letter: duplicate and conflict are both true.
CREATE OR REPLACE FUNCTION {schema}.emit_event(
    type text, payload jsonb DEFAULT '{}', topic text DEFAULT NULL, event_id uuid DEFAULT NULL,
    schema_version integer DEFAULT 1, source text DEFAULT NULL, tenant text DEFAULT NULL,
    entity_type text DEFAULT NULL, entity_id text DEFAULT NULL, headers jsonb DEFAULT NULL,
    correlation_id text DEFAULT NULL, causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    mode text DEFAULT NULL, ordering_key text DEFAULT NULL, dedup_key text DEFAULT NULL,
    OUT id bigint, OUT new_event_id uuid, OUT duplicate boolean, OUT conflict boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    new_event_id := coalesce(emit_event.event_id, {schema}.new_uuid());
    INSERT INTO {schema}.events AS e
           (event_id, topic, mode, type, schema_version, source, ordering_key, dedup_key, tenant, entity_type,
            entity_id, payload, headers, correlation_id, causation_id, traceparent, occurred_at, run_at)
    VALUES (new_event_id, emit_event.topic, emit_event.mode, emit_event.type,
            emit_event.schema_version, emit_event.source, emit_event.ordering_key, emit_event.dedup_key,
            emit_event.tenant, emit_event.entity_type, emit_event.entity_id, coalesce(emit_event.payload, '{}'),
            emit_event.headers, emit_event.correlation_id, emit_event.causation_id, emit_event.traceparent,
            coalesce(emit_event.occurred_at, now()), coalesce(emit_event.run_at, now()))
    ON CONFLICT (event_id, topic) DO NOTHING
    RETURNING e.id, e.status = 'failed' INTO emit_event.id, emit_event.conflict;
    duplicate := emit_event.id IS NULL;
    IF duplicate THEN
        SELECT k.id, k.event_id, k.conflict INTO emit_event.id, new_event_id, emit_event.conflict
          FROM {schema}.unwritten_event(emit_event.type, emit_event.schema_version, emit_event.topic, emit_event.source,
                                    emit_event.dedup_key, new_event_id, emit_event.payload) AS k;
    END IF;
END
$$;

-- As 0014 has it, but: what was not written, or was in the page before, is looked for in each of its topics,
-- since it may have taken a key in each.
CREATE OR REPLACE FUNCTION {schema}.emit_event_arrays(
    types text[], payloads jsonb[], topics text[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, sources text[] DEFAULT NULL, tenants text[] DEFAULT NULL,
    entity_types text[] DEFAULT NULL, entity_ids text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL,
    traceparents text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL, modes text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    dedup_keys text[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean, conflict boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.refuse_ragged(
        cardinality(types), cardinality(payloads), cardinality(topics), cardinality(event_ids),
        cardinality(schema_versions), cardinality(sources), cardinality(tenants),
        cardinality(entity_types), cardinality(entity_ids), cardinality(headers),
        cardinality(correlation_ids), cardinality(causation_ids), cardinality(traceparents),
        cardinality(occurred_ats), cardinality(run_ats), cardinality(modes), cardinality(ordering_keys),
        cardinality(dedup_keys));
    RETURN QUERY
    WITH resolved AS MATERIALIZED (  -- again: the page has this event_id for this topic already
        SELECT g.*, r.topic,
               row_number() OVER (PARTITION BY g.event_id, r.topic ORDER BY g.ordinal) > 1 AS again,
               coalesce(g.mode, 'single') = 'single' AND coalesce(t.mode, 'single') = 'single' AS single,
               coalesce(g.given_key, {schema}.declared_key(t.dedup_path, g.event_id, g.payload)) AS dedup_key
          FROM (SELECT u.*, coalesce(u.given_id, {schema}.new_uuid()) AS event_id
                  FROM unnest(types, payloads, topics, event_ids, schema_versions, sources, tenants,
                              entity_types, entity_ids, headers, correlation_ids, causation_ids, traceparents,
                              occurred_ats, run_ats, modes, ordering_keys, dedup_keys) WITH ORDINALITY
                       AS u(type, payload, given_topic, given_id, schema_version, source, tenant, entity_type,
                            entity_id, headers, correlation_id, causation_id, traceparent, occurred_at,
                            run_at, mode, ordering_key, given_key, ordinal)) AS g
          LEFT JOIN {schema}.subscriptions s ON s.type = g.type AND g.given_topic IS NULL
         CROSS JOIN LATERAL (SELECT coalesce(g.given_topic, s.topic, 'default') AS topic) AS r
          LEFT JOIN {schema}.topics t ON t.name = r.topic
    ), recorded AS (
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        SELECT topic, coalesce(source, ''), dedup_key, event_id,
               {schema}.body_hash(type, coalesce(schema_version, 1), coalesce(payload, '{}'))
          FROM resolved WHERE dedup_key IS NOT NULL
         ORDER BY dedup_key COLLATE "C", topic COLLATE "C", coalesce(source, '') COLLATE "C", ordinal
        ON CONFLICT DO NOTHING
        RETURNING topic, source, key, event_id
    ), written AS (
        INSERT INTO {schema}.events
               (event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
                entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent,
                occurred_at, run_at)
        SELECT g.event_id, g.topic, CASE WHEN g.single THEN 'single' ELSE g.mode END, g.type,
               coalesce(g.schema_version, 1), g.source, g.ordering_key,
               CASE WHEN g.dedup_key IS NOT NULL AND NOT g.leads THEN NULL
                    WHEN g.single THEN 0
                    WHEN g.dedup_key IS NOT NULL THEN -1 END,
               g.dedup_key, g.tenant, g.entity_type, g.entity_id, coalesce(g.payload, '{}'), g.headers,
               g.correlation_id, g.causation_id, g.traceparent, coalesce(g.occurred_at, now()),
               coalesce(g.run_at, now())
          FROM (SELECT o.*,  -- leads: its key was recorded, first of those of its event_id
                       r.key IS NOT NULL
                       AND row_number() OVER (PARTITION BY r.event_id, r.topic ORDER BY o.ordinal) = 1 AS leads
                  FROM resolved o
                  LEFT JOIN recorded r ON r.event_id = o.event_id AND r.key = o.dedup_key
                                      AND r.topic = o.topic AND r.source = coalesce(o.source, '')) AS g
         ORDER BY CASE WHEN g.single THEN g.given_id END,
                  CASE WHEN g.single AND g.given_id IS NOT NULL THEN g.topic END COLLATE "C", g.ordinal
        ON CONFLICT (event_id, topic) DO NOTHING
        RETURNING id, event_id, topic, status
    )
    SELECT DISTINCT ON (a.ordinal)
           a.ordinal, coalesce(a.id, (a.known).id), coalesce((a.known).event_id, a.event_id),
           a.id IS NULL OR a.again, coalesce((a.known).conflict, a.status = 'failed')
      FROM (SELECT g.ordinal, g.topic, g.event_id, g.again, w.id, w.status,
                   CASE WHEN w.id IS NULL OR g.again
                        THEN {schema}.unwritten_event(types[g.ordinal], schema_versions[g.ordinal], g.topic,
                                                  sources[g.ordinal], g.dedup_key, g.event_id, payloads[g.ordinal])
                   END AS known
              FROM resolved g LEFT JOIN written w ON w.event_id = g.event_id AND w.topic = g.topic
            OFFSET 0) AS a
     ORDER BY a.ordinal, a.topic;
END
$$;

REVOKE EXECUTE ON FUNCTION {schema}.contradiction, {schema}.judge_event, {schema}.unwritten_event,
    {schema}.copy_event_to FROM PUBLIC;
