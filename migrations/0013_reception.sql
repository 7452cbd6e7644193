-- Reception: one event to several topics, and each event once (promise 2, R1).
-- oldest code: 4
--
-- An event whose producer names no topic becomes a row for each topic that its type is subscribed to.
-- A row with a dedup key is recorded in `dedup`, in the transaction of its insert, by whichever way it
-- comes: plain INSERT, COPY, the functions. The record is a row of a unique index, so of any number of
-- concurrent duplicates one is written; the others wait until that one has committed, and are none if it
-- rolls back. The record outlives the row: it goes when the window of its topic and source has passed
-- (docs/deduplication.md). ADR 14 tells why the key is kept
-- as it is, in one table.

-- The key comes first in the index: it tells rows apart at the first comparison. There is no index of times:
-- what is over is found by walking the table, a few blocks at a time (maintenance/dedup.py).
CREATE TABLE {schema}.dedup (
    topic     text COLLATE "C" NOT NULL,
    source    text COLLATE "C" NOT NULL,  -- '' where the producer names none
    key       text COLLATE "C" NOT NULL,
    event_id  uuid NOT NULL,
    body_hash bigint,                     -- NULL: not known, so that nothing contradicts it
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (key, topic, source)
) WITH (
    -- Rows are inserted and, a window later, deleted. A vacuum walks the index whole, so it is worth its
    -- while only for a good share of them.
    fillfactor = 100, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0.1
);

-- What was sent again: written in the sender's transaction, counted and removed by the leader.
CREATE TABLE {schema}.duplicates (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic       text NOT NULL,
    source      text NOT NULL,
    key         text NOT NULL,
    type        text NOT NULL,
    event_id    uuid NOT NULL,  -- of what was sent again
    first_event uuid NOT NULL,  -- of what has the key
    conflict    boolean NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- One event may be in several topics.
DROP INDEX {schema}.events_event_id;
CREATE UNIQUE INDEX events_event_id ON {schema}.events (event_id, topic);

-- ---------------------------------------------------------------------------------- the record

-- What an event says, by which a second one with its key is told from a contradiction. jsonb has one
-- text for each value; the hash is not secret and guards nothing but honest senders' mistakes.
CREATE FUNCTION {schema}.body_hash(type text, schema_version integer, payload jsonb) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended((type || ' ' || schema_version::text || ' ' || payload::text) COLLATE "C", 0)
$$;

-- The dedup key of an event whose producer gave none, as its topic declares. A long one is kept as its hash.
CREATE FUNCTION {schema}.declared_key(dedup_path text[], event_id uuid, payload jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN dedup_path IS NULL THEN NULL
                WHEN dedup_path = '{}' THEN event_id::text
                WHEN octet_length(payload #>> dedup_path) > 255
                THEN encode(sha256(convert_to(payload #>> dedup_path, 'UTF8')), 'hex')
                ELSE nullif(payload #>> dedup_path, '') END
$$;

-- Record a key. first_event: of the event that has it already, NULL if this is the first; conflict: that
-- one said something else. Waits for a transaction that is recording the same key.
CREATE FUNCTION {schema}.remember(
    of_topic text, of_source text, with_key text, as_event uuid, saying bigint,
    OUT first_event uuid, OUT conflict boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    LOOP
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        VALUES (of_topic, coalesce(of_source, ''), with_key, as_event, saying)
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT d.event_id, coalesce(d.body_hash <> saying, false) INTO first_event, conflict
          FROM {schema}.dedup d
         WHERE d.topic = of_topic AND d.source = coalesce(of_source, '') AND d.key = with_key;
        EXIT WHEN FOUND;  -- or it was purged at this very moment
    END LOOP;
END
$$;

-- ----------------------------------------------------------------------------------- reception

-- The topics after the first get copies: each accepted by itself, as if its producer had named that topic.
CREATE FUNCTION {schema}.copy_event(given {schema}.events) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
    ON CONFLICT (event_id, topic) DO NOTHING
$$;

-- What a contradiction says of itself, as a dead letter.
CREATE FUNCTION {schema}.dedup_conflict(key text, first_event uuid) RETURNS jsonb
    LANGUAGE sql VOLATILE AS $$
    SELECT jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'error', format(
        'DedupConflict: the dedup key %L belongs to event %s, which said something else: dismiss this one, '
        'or replay it, so that it is processed too', key, first_event)))
$$;

-- As 0010 has it, and: the other topics get copies, and a key is recorded. bucket is -1 where
-- emit_event_arrays has recorded it already.
--
-- A key that another event has, which said the same: the row is not written. Which said something else:
-- somebody is wrong, and nothing is swallowed: the row is a dead letter at once, which may be dismissed, or
-- replayed, so that it is processed after all.
CREATE OR REPLACE FUNCTION {schema}.accept_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    declared    record;
    first_event uuid;  -- which has the key already
    conflict    boolean;
BEGIN
    IF NEW.topic IS NULL THEN
        SELECT s.topic, t.mode, t.key_path, t.dedup_path,
               EXISTS (SELECT FROM {schema}.subscriptions o WHERE o.type = s.type AND o.topic > s.topic) AS more
          INTO declared
          FROM {schema}.subscriptions s LEFT JOIN {schema}.topics t ON t.name = s.topic
         WHERE s.type = NEW.type ORDER BY s.topic LIMIT 1;
        NEW.topic := coalesce(declared.topic, 'default');
        IF declared.more THEN
            PERFORM {schema}.copy_event(NEW);
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
            SELECT r.first_event, r.conflict INTO first_event, conflict
              FROM {schema}.remember(NEW.topic, NEW.source, NEW.dedup_key, NEW.event_id,
                                     {schema}.body_hash(NEW.type, NEW.schema_version, NEW.payload)) AS r;
        END IF;
        IF first_event IS NOT NULL THEN
            INSERT INTO {schema}.duplicates (topic, source, key, type, event_id, first_event, conflict)
            VALUES (NEW.topic, coalesce(NEW.source, ''), NEW.dedup_key, NEW.type, NEW.event_id,
                    first_event, conflict);
            IF NOT conflict THEN
                RETURN NULL;
            END IF;
            RAISE WARNING 'the dedup key % of the topic % belongs to event %, which said something else',
                quote_literal(NEW.dedup_key), quote_literal(NEW.topic), first_event
                USING ERRCODE = 'IB008', HINT = 'The event is kept as a dead letter: dismiss or replay it.';
            -- Its bucket is that of its line: there it will stand, if it is replayed.
            NEW.bucket := CASE NEW.mode WHEN 'single' THEN 0
                          ELSE {schema}.bucket_of(NEW.topic, NEW.ordering_key) END;
            NEW.status := 'failed';
            NEW.errors := {schema}.dedup_conflict(NEW.dedup_key, first_event);
            NEW.fingerprint := 'dedup-conflict:' || NEW.type;
            RETURN NEW;
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

DROP TRIGGER events_accept ON {schema}.events;
CREATE TRIGGER events_accept BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (coalesce(NEW.bucket, -1) < 0) EXECUTE FUNCTION {schema}.accept_event();

-- ---------------------------------------------------------------------------------- functions
-- For callers that want the answer. duplicate: nothing was written, since an event with this event_id is
-- unsettled, or one with this dedup key is known; id (NULL once it is settled) and event_id are that
-- one's. conflict: the one that has the key said something else, and this one is a dead letter. Of an
-- event for several topics they tell of the first. Old callers give fewer arguments, by place.

DROP FUNCTION {schema}.emit_event(text, jsonb, text, uuid, integer, text, text, text, text, jsonb, text, uuid,
    text, timestamptz, timestamptz);
DROP FUNCTION {schema}.emit_event_arrays(text[], jsonb[], text[], uuid[], integer[], text[], text[], text[],
    text[], jsonb[], text[], uuid[], text[], timestamptz[], timestamptz[]);
DROP FUNCTION {schema}.emit_events(jsonb);
DROP FUNCTION {schema}.unsettled_event(uuid);

CREATE TYPE {schema}.event_ids AS (id bigint, event_id uuid);

-- What was there instead of an event that was not written; its snapshot is younger than the insert's.
CREATE FUNCTION {schema}.known_event(
    of_type text, in_topic text, of_source text, with_key text, given_id uuid, saying jsonb
) RETURNS {schema}.event_ids LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH place AS (
        SELECT r.topic, coalesce(with_key, {schema}.declared_key(t.dedup_path, given_id, saying)) AS key
          FROM (SELECT coalesce(in_topic, (SELECT min(s.topic) FROM {schema}.subscriptions s
                                            WHERE s.type = of_type), 'default') AS topic) AS r
          LEFT JOIN {schema}.topics t ON t.name = r.topic
    ), first AS (
        SELECT p.topic, coalesce(d.event_id, given_id) AS event_id
          FROM place p LEFT JOIN {schema}.dedup d
            ON d.topic = p.topic AND d.source = coalesce(of_source, '') AND d.key = p.key
    )
    SELECT e.id, f.event_id
      FROM first f LEFT JOIN {schema}.events e ON e.event_id = f.event_id AND e.topic = f.topic
$$;

CREATE FUNCTION {schema}.emit_event(
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
        conflict := false;
        SELECT k.id, k.event_id INTO emit_event.id, new_event_id
          FROM {schema}.known_event(emit_event.type, emit_event.topic, emit_event.source,
                                    emit_event.dedup_key, new_event_id, emit_event.payload) AS k;
    END IF;
END
$$;

-- Single events are resolved here, a page at once; the trigger is called for what goes into a line and for a
-- key that somebody has, the rest of the judgement. Keys are recorded in their order, and what has an
-- event_id of its producer's is inserted in theirs, so that producers with the same keys do not deadlock;
-- what goes into a line keeps the order given, which is its order there.
CREATE FUNCTION {schema}.emit_event_arrays(
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
    WITH given AS MATERIALIZED (
        SELECT g.*, coalesce(g.given_id, {schema}.new_uuid()) AS event_id
          FROM unnest(types, payloads, topics, event_ids, schema_versions, sources, tenants,
                      entity_types, entity_ids, headers, correlation_ids, causation_ids,
                      traceparents, occurred_ats, run_ats, modes, ordering_keys, dedup_keys) WITH ORDINALITY
               AS g(type, payload, given_topic, given_id, schema_version, source, tenant, entity_type,
                    entity_id, headers, correlation_id, causation_id, traceparent, occurred_at,
                    run_at, mode, ordering_key, given_key, ordinal)
    ), resolved AS MATERIALIZED (
        SELECT g.*, r.topic, coalesce(g.mode, 'single') = 'single' AND coalesce(t.mode, 'single') = 'single'
               AS single,
               coalesce(g.given_key, {schema}.declared_key(t.dedup_path, g.event_id, g.payload)) AS dedup_key
          FROM given g
          LEFT JOIN {schema}.subscriptions s ON s.type = g.type AND g.given_topic IS NULL
         CROSS JOIN LATERAL (SELECT coalesce(g.given_topic, s.topic, 'default') AS topic) AS r
          LEFT JOIN {schema}.topics t ON t.name = r.topic
    ), keyed AS MATERIALIZED (
        SELECT ordinal, topic, coalesce(source, '') AS source, dedup_key AS key, event_id,
               {schema}.body_hash(type, coalesce(schema_version, 1), coalesce(payload, '{}')) AS body_hash
          FROM resolved WHERE dedup_key IS NOT NULL
    ), recorded AS (
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        SELECT topic, source, key, event_id, body_hash FROM keyed
         ORDER BY key COLLATE "C", topic COLLATE "C", source COLLATE "C", ordinal
        ON CONFLICT DO NOTHING
        RETURNING topic, source, key, event_id
    ), firsts AS (  -- of those with one event_id, one
        SELECT min(k.ordinal) AS ordinal, k.topic
          FROM recorded r
          JOIN keyed k ON k.key = r.key AND k.topic = r.topic AND k.source = r.source AND k.event_id = r.event_id
         GROUP BY k.topic, k.event_id
    ), written AS (
        INSERT INTO {schema}.events
               (event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
                entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent,
                occurred_at, run_at)
        SELECT g.event_id, g.topic, CASE WHEN g.single THEN 'single' ELSE g.mode END, g.type,
               coalesce(g.schema_version, 1), g.source, g.ordering_key,
               CASE WHEN g.dedup_key IS NOT NULL AND f.ordinal IS NULL THEN NULL
                    WHEN g.single THEN 0
                    WHEN g.dedup_key IS NOT NULL THEN -1 END,
               g.dedup_key, g.tenant, g.entity_type, g.entity_id, coalesce(g.payload, '{}'), g.headers,
               g.correlation_id, g.causation_id, g.traceparent, coalesce(g.occurred_at, now()),
               coalesce(g.run_at, now())
          FROM resolved g LEFT JOIN firsts f ON f.ordinal = g.ordinal AND f.topic = g.topic
         ORDER BY CASE WHEN g.single THEN g.given_id END, g.ordinal
        ON CONFLICT (event_id, topic) DO NOTHING
        RETURNING id, event_id, topic, status
    )
    SELECT a.ordinal, coalesce(a.id, (a.known).id), coalesce((a.known).event_id, a.event_id),
           a.id IS NULL OR row_number() OVER (PARTITION BY a.event_id ORDER BY a.ordinal) > 1, a.conflict
      FROM (SELECT DISTINCT ON (g.ordinal)
                   g.ordinal, g.event_id, w.id, coalesce(w.status = 'failed', false) AS conflict,
                   CASE WHEN w.id IS NULL
                        THEN {schema}.known_event(types[g.ordinal], g.topic, sources[g.ordinal], g.dedup_key,
                                                  g.event_id, payloads[g.ordinal])
                   END AS known
              FROM resolved g LEFT JOIN written w ON w.event_id = g.event_id AND w.topic = g.topic
             ORDER BY g.ordinal, g.topic) AS a
     ORDER BY a.ordinal;
END
$$;

CREATE FUNCTION {schema}.emit_events(events jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean, conflict boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(events, ARRAY[
        'event_id', 'topic', 'type', 'schema_version', 'source', 'tenant',
        'entity_type', 'entity_id', 'payload', 'headers', 'correlation_id',
        'causation_id', 'traceparent', 'occurred_at', 'run_at', 'mode', 'ordering_key', 'dedup_key']);
    SELECT written.*
      FROM (SELECT array_agg(r.type) AS types, array_agg(r.payload) AS payloads,
                   array_agg(r.topic) AS topics, array_agg(r.event_id) AS event_ids,
                   array_agg(r.schema_version) AS schema_versions,
                   array_agg(r.source) AS sources, array_agg(r.tenant) AS tenants,
                   array_agg(r.entity_type) AS entity_types,
                   array_agg(r.entity_id) AS entity_ids,
                   array_agg(r.headers) AS headers,
                   array_agg(r.correlation_id) AS correlation_ids,
                   array_agg(r.causation_id) AS causation_ids,
                   array_agg(r.traceparent) AS traceparents,
                   array_agg(r.occurred_at) AS occurred_ats,
                   array_agg(r.run_at) AS run_ats,
                   array_agg(r.mode) AS modes,
                   array_agg(r.ordering_key) AS ordering_keys,
                   array_agg(r.dedup_key) AS dedup_keys
              FROM (SELECT value FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   event_id uuid, topic text, type text, schema_version integer, source text,
                   tenant text, entity_type text, entity_id text, payload jsonb, headers jsonb,
                   correlation_id text, causation_id uuid, traceparent text, occurred_at timestamptz,
                   run_at timestamptz, mode text, ordering_key text, dedup_key text)) AS a
     CROSS JOIN LATERAL {schema}.emit_event_arrays(
           a.types, a.payloads, a.topics, a.event_ids, a.schema_versions, a.sources, a.tenants,
           a.entity_types, a.entity_ids, a.headers, a.correlation_ids, a.causation_ids,
           a.traceparents, a.occurred_ats, a.run_ats, a.modes, a.ordering_keys, a.dedup_keys) AS written
     ORDER BY written.ordinal
$$;

-- --------------------------------------------------------------------------------- privileges

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_producer') IS NOT NULL THEN
        GRANT INSERT (dedup_key), SELECT (topic) ON {schema}.events TO {schema}_producer;
        GRANT EXECUTE ON FUNCTION {schema}.emit_event, {schema}.emit_events, {schema}.emit_event_arrays
           TO {schema}_producer;
    END IF;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, DELETE, UPDATE ON {schema}.dedup, {schema}.duplicates TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.emit_event, {schema}.emit_events, {schema}.remember,
              {schema}.body_hash TO {schema}_worker;
    END IF;
END
$do$;
