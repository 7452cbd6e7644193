-- What producers may call: emit_event, send_command, their bulk forms, plain INSERT; one role.
-- oldest code: 1

-- ------------------------------------------------------------------------------ large payloads
-- A row must stay small, since it moves when it settles (8 KB rows: 7,000 against 487,000 rows/s).
-- Without a partition for today the payload stays in the row: slower, never lost.

CREATE FUNCTION {schema}.put_body() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    IF to_regclass('{schema}.bodies' || to_char(now(), '_YYYYMMDD')) IS NULL THEN
        RETURN NEW;
    END IF;
    INSERT INTO {schema}.bodies (payload) VALUES (NEW.payload)
        RETURNING id, created_at INTO NEW.body_id, NEW.body_at;
    NEW.body_bytes := pg_column_size(NEW.payload);
    NEW.payload := NULL;
    RETURN NEW;
END
$$;

CREATE TRIGGER events_body BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (pg_column_size(NEW.payload) > 1500) EXECUTE FUNCTION {schema}.put_body();
CREATE TRIGGER commands_body BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (pg_column_size(NEW.payload) > 1500) EXECUTE FUNCTION {schema}.put_body();

-- A command whose producer names no queue gets the one that its handler declares.
CREATE FUNCTION {schema}.declared_queue(command_type text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT queue FROM {schema}.declared_types
                      WHERE kind = 'command' AND type = command_type), 'default')
$$;

CREATE FUNCTION {schema}.fill_queue() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.queue := {schema}.declared_queue(NEW.type);
    RETURN NEW;
END
$$;

CREATE TRIGGER commands_queue BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.queue IS NULL) EXECUTE FUNCTION {schema}.fill_queue();

-- ---------------------------------------------------------------------------------- functions
-- duplicate: a row with this event_id (command_id) is there already; nothing was written.

CREATE FUNCTION {schema}.emit_event(
    type text, payload jsonb DEFAULT '{}', topic text DEFAULT NULL, event_id uuid DEFAULT NULL,
    schema_version integer DEFAULT 1, source text DEFAULT NULL, tenant text DEFAULT NULL,
    entity_type text DEFAULT NULL, entity_id text DEFAULT NULL, headers jsonb DEFAULT NULL,
    correlation_id text DEFAULT NULL, causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    OUT id bigint, OUT new_event_id uuid, OUT duplicate boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    new_event_id := coalesce(emit_event.event_id, {schema}.new_uuid());
    INSERT INTO {schema}.events AS e
           (event_id, topic, type, schema_version, source, tenant, entity_type, entity_id, payload,
            headers, correlation_id, causation_id, traceparent, occurred_at, run_at)
    VALUES (new_event_id, coalesce(emit_event.topic, 'default'), emit_event.type,
            emit_event.schema_version, emit_event.source, emit_event.tenant, emit_event.entity_type,
            emit_event.entity_id, coalesce(emit_event.payload, '{}'), emit_event.headers,
            emit_event.correlation_id, emit_event.causation_id, emit_event.traceparent,
            coalesce(emit_event.occurred_at, now()), coalesce(emit_event.run_at, now()))
    ON CONFLICT (event_id) DO NOTHING
    RETURNING e.id INTO emit_event.id;
    duplicate := emit_event.id IS NULL;
    IF duplicate THEN
        SELECT e.id INTO emit_event.id FROM {schema}.events e WHERE e.event_id = new_event_id;
    END IF;
END
$$;

CREATE FUNCTION {schema}.send_command(
    type text, payload jsonb DEFAULT '{}', queue text DEFAULT NULL, command_id uuid DEFAULT NULL,
    schema_version integer DEFAULT 1, priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, max_attempts integer DEFAULT NULL, tenant text DEFAULT NULL,
    entity_type text DEFAULT NULL, entity_id text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL,
    OUT id bigint, OUT new_command_id uuid, OUT duplicate boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    new_command_id := coalesce(send_command.command_id, {schema}.new_uuid());
    INSERT INTO {schema}.commands AS c
           (command_id, queue, type, schema_version, payload, priority, run_at, deadline, max_attempts,
            tenant, entity_type, entity_id, correlation_id, causation_id, traceparent)
    VALUES (new_command_id, send_command.queue, send_command.type, send_command.schema_version,
            coalesce(send_command.payload, '{}'), send_command.priority,
            coalesce(send_command.run_at, now()),
            send_command.deadline, send_command.max_attempts, send_command.tenant,
            send_command.entity_type, send_command.entity_id, send_command.correlation_id,
            send_command.causation_id, send_command.traceparent)
    ON CONFLICT (command_id) DO NOTHING
    RETURNING c.id INTO send_command.id;
    duplicate := send_command.id IS NULL;
    IF duplicate THEN
        SELECT c.id INTO send_command.id FROM {schema}.commands c WHERE c.command_id = new_command_id;
    END IF;
END
$$;

-- The array forms are what the Python client calls: one array a column, as long as the first; NULL for
-- a column that no row fills. A page of 1,000 costs a quarter less than the same rows as JSON, and
-- plpgsql keeps its plan. They answer a row for each, in the order given. Rows whose producer chose
-- the unique key are inserted in its order: two producers that send the same keys in different orders
-- would deadlock otherwise. The others keep the order given, so that their ids do.
-- The id of a duplicate is looked up by a volatile function, whose snapshot sees a row that another
-- producer committed meanwhile; it is null when that row was settled meanwhile.

CREATE FUNCTION {schema}.refuse_ragged(VARIADIC lengths integer[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(lengths) AS length WHERE length <> lengths[1]) THEN
        RAISE EXCEPTION 'arrays of different lengths: %', lengths
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Give each column as many entries as types, or NULL for the whole column.';
    END IF;
END
$$;

CREATE FUNCTION {schema}.unsettled_event(event_key uuid) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
    'SELECT id FROM {schema}.events WHERE event_id = event_key';

CREATE FUNCTION {schema}.emit_event_arrays(
    types text[], payloads jsonb[], topics text[] DEFAULT NULL, event_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, sources text[] DEFAULT NULL, tenants text[] DEFAULT NULL,
    entity_types text[] DEFAULT NULL, entity_ids text[] DEFAULT NULL, headers jsonb[] DEFAULT NULL,
    correlation_ids text[] DEFAULT NULL, causation_ids uuid[] DEFAULT NULL,
    traceparents text[] DEFAULT NULL, occurred_ats timestamptz[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.refuse_ragged(
        cardinality(types), cardinality(payloads), cardinality(topics), cardinality(event_ids),
        cardinality(schema_versions), cardinality(sources), cardinality(tenants),
        cardinality(entity_types), cardinality(entity_ids), cardinality(headers),
        cardinality(correlation_ids), cardinality(causation_ids), cardinality(traceparents),
        cardinality(occurred_ats), cardinality(run_ats));
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.*, coalesce(g.given_id, {schema}.new_uuid()) AS event_id
          FROM unnest(types, payloads, topics, event_ids, schema_versions, sources, tenants,
                      entity_types, entity_ids, headers, correlation_ids, causation_ids,
                      traceparents, occurred_ats, run_ats) WITH ORDINALITY
               AS g(type, payload, topic, given_id, schema_version, source, tenant, entity_type,
                    entity_id, headers, correlation_id, causation_id, traceparent, occurred_at,
                    run_at, ordinal)
    ), written AS (
        INSERT INTO {schema}.events
               (event_id, topic, type, schema_version, source, tenant, entity_type, entity_id,
                payload, headers, correlation_id, causation_id, traceparent, occurred_at, run_at)
        SELECT event_id, coalesce(topic, 'default'), type, coalesce(schema_version, 1), source,
               tenant, entity_type, entity_id, coalesce(payload, '{}'), headers, correlation_id,
               causation_id, traceparent, coalesce(occurred_at, now()), coalesce(run_at, now())
          FROM given ORDER BY given_id, ordinal
        ON CONFLICT (event_id) DO NOTHING
        RETURNING id, event_id
    )
    SELECT g.ordinal, coalesce(w.id, {schema}.unsettled_event(g.event_id)), g.event_id,
           w.id IS NULL OR row_number() OVER (PARTITION BY g.event_id ORDER BY g.ordinal) > 1
      FROM given g LEFT JOIN written w ON w.event_id = g.event_id
     ORDER BY g.ordinal;
END
$$;

CREATE FUNCTION {schema}.unsettled_command(command_key uuid) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
    'SELECT id FROM {schema}.commands WHERE command_id = command_key';

CREATE FUNCTION {schema}.send_command_arrays(
    types text[], payloads jsonb[], queues text[] DEFAULT NULL, command_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, priorities integer[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL, deadlines timestamptz[] DEFAULT NULL,
    max_attempts integer[] DEFAULT NULL, tenants text[] DEFAULT NULL, entity_types text[] DEFAULT NULL,
    entity_ids text[] DEFAULT NULL, correlation_ids text[] DEFAULT NULL,
    causation_ids uuid[] DEFAULT NULL, traceparents text[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.refuse_ragged(
        cardinality(types), cardinality(payloads), cardinality(queues), cardinality(command_ids),
        cardinality(schema_versions), cardinality(priorities), cardinality(run_ats),
        cardinality(deadlines), cardinality(max_attempts), cardinality(tenants),
        cardinality(entity_types), cardinality(entity_ids), cardinality(correlation_ids),
        cardinality(causation_ids), cardinality(traceparents));
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.*, coalesce(g.given_id, {schema}.new_uuid()) AS command_id
          FROM unnest(types, payloads, queues, command_ids, schema_versions, priorities, run_ats,
                      deadlines, send_command_arrays.max_attempts, tenants, entity_types,
                      entity_ids, correlation_ids, causation_ids, traceparents) WITH ORDINALITY
               AS g(type, payload, queue, given_id, schema_version, priority, run_at, deadline,
                    max_attempts, tenant, entity_type, entity_id, correlation_id, causation_id,
                    traceparent, ordinal)
    ), written AS (
        INSERT INTO {schema}.commands
               (command_id, queue, type, schema_version, payload, priority, run_at, deadline,
                max_attempts, tenant, entity_type, entity_id, correlation_id, causation_id,
                traceparent)
        SELECT command_id, queue, type, coalesce(schema_version, 1), coalesce(payload, '{}'),
               coalesce(priority, 0), coalesce(run_at, now()), deadline, max_attempts, tenant,
               entity_type, entity_id, correlation_id, causation_id, traceparent
          FROM given ORDER BY given_id, ordinal
        ON CONFLICT (command_id) DO NOTHING
        RETURNING id, command_id
    )
    SELECT g.ordinal, coalesce(w.id, {schema}.unsettled_command(g.command_id)), g.command_id,
           w.id IS NULL OR row_number() OVER (PARTITION BY g.command_id ORDER BY g.ordinal) > 1
      FROM given g LEFT JOIN written w ON w.command_id = g.command_id
     ORDER BY g.ordinal;
END
$$;

-- The same from plain SQL: one argument, a JSON array of objects whose keys are the arguments of
-- emit_event and send_command.

CREATE FUNCTION {schema}.refuse_unknown_keys(items jsonb, known text[]) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place bigint;
    name  text;
BEGIN
    SELECT item.n, key INTO place, name
      FROM jsonb_array_elements(items) WITH ORDINALITY AS item(value, n)
     CROSS JOIN LATERAL jsonb_object_keys(item.value) AS key
     WHERE key <> ALL (known)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'item % has the unknown key %', place, quote_ident(name)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'known: ' || array_to_string(known, ', ');
    END IF;
END
$$;

CREATE FUNCTION {schema}.emit_events(events jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, event_id uuid, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(events, ARRAY[
        'event_id', 'topic', 'type', 'schema_version', 'source', 'tenant',
        'entity_type', 'entity_id', 'payload', 'headers', 'correlation_id',
        'causation_id', 'traceparent', 'occurred_at', 'run_at']);
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
                   array_agg(r.run_at) AS run_ats
              FROM (SELECT value FROM jsonb_array_elements(events) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   event_id uuid, topic text, type text, schema_version integer, source text,
                   tenant text, entity_type text, entity_id text, payload jsonb, headers jsonb,
                   correlation_id text, causation_id uuid, traceparent text, occurred_at timestamptz,
                   run_at timestamptz)) AS a
     CROSS JOIN LATERAL {schema}.emit_event_arrays(
           a.types, a.payloads, a.topics, a.event_ids, a.schema_versions, a.sources, a.tenants,
           a.entity_types, a.entity_ids, a.headers, a.correlation_ids, a.causation_ids,
           a.traceparents, a.occurred_ats, a.run_ats) AS written
     ORDER BY written.ordinal
$$;

CREATE FUNCTION {schema}.send_commands(commands jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(commands, ARRAY[
        'command_id', 'queue', 'type', 'schema_version', 'payload', 'priority',
        'run_at', 'deadline', 'max_attempts', 'tenant', 'entity_type', 'entity_id',
        'correlation_id', 'causation_id', 'traceparent']);
    SELECT written.*
      FROM (SELECT array_agg(r.type) AS types, array_agg(r.payload) AS payloads,
                   array_agg(r.queue) AS queues,
                   array_agg(r.command_id) AS command_ids,
                   array_agg(r.schema_version) AS schema_versions,
                   array_agg(r.priority) AS priorities,
                   array_agg(r.run_at) AS run_ats,
                   array_agg(r.deadline) AS deadlines,
                   array_agg(r.max_attempts) AS max_attempts,
                   array_agg(r.tenant) AS tenants,
                   array_agg(r.entity_type) AS entity_types,
                   array_agg(r.entity_id) AS entity_ids,
                   array_agg(r.correlation_id) AS correlation_ids,
                   array_agg(r.causation_id) AS causation_ids,
                   array_agg(r.traceparent) AS traceparents
              FROM (SELECT value FROM jsonb_array_elements(commands) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   command_id uuid, queue text, type text, schema_version integer, payload jsonb,
                   priority integer, run_at timestamptz, deadline timestamptz, max_attempts integer,
                   tenant text, entity_type text, entity_id text, correlation_id text,
                   causation_id uuid, traceparent text)) AS a
     CROSS JOIN LATERAL {schema}.send_command_arrays(
           a.types, a.payloads, a.queues, a.command_ids, a.schema_versions, a.priorities, a.run_ats,
           a.deadlines, a.max_attempts, a.tenants, a.entity_types, a.entity_ids, a.correlation_ids,
           a.causation_ids, a.traceparents) AS written
     ORDER BY written.ordinal
$$;

-- ----------------------------------------------------------------------------- the lease's word
-- Settles a command inside its handler's own transaction. It raises when the claim does not hold
-- the lease any more, so that «settle; COMMIT» in one round trip cannot commit a stale worker's
-- effects (promise 3). It runs in handlers' sessions, whose planner is left alone: a plan kept from
-- when the table was small would read all of it at each settlement, hence enable_seqscan.

CREATE FUNCTION {schema}.settle_command(
    command bigint, held_fence bigint, worker uuid, seconds double precision, outcome jsonb DEFAULT NULL
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE id = command AND fence = held_fence AND worker_id = worker
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, duration)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'succeeded', attempts + 1, max_attempts, crashes,
           fence, run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
           replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, outcome,
           progress, body_id, body_at, body_bytes, created_at, now(), now(),
           make_interval(secs => seconds)
      FROM gone;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease lost: command % is not held by this claim any more', command
            USING ERRCODE = 'IB001';
    END IF;
END
$$;

-- --------------------------------------------------------------------------------- privileges
-- A producer inserts; it reads no payload. SELECT on the ids is what RETURNING and ON CONFLICT need.
-- The role belongs to the whole server, so creating it is optional: without the right to, the
-- administrator grants the same to a role of their own (docs/producers.md).

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;

DO $do$
BEGIN
    BEGIN
        CREATE ROLE {schema}_producer NOLOGIN;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
            RAISE NOTICE 'role {schema}_producer was not created: the right to create roles is missing';
            RETURN;
    END;
    GRANT USAGE ON SCHEMA {schema} TO {schema}_producer;
    GRANT INSERT (event_id, topic, type, schema_version, source, tenant, entity_type, entity_id,
                  payload, headers, correlation_id, causation_id, traceparent, occurred_at, run_at),
          SELECT (id, event_id)
       ON {schema}.events TO {schema}_producer;
    GRANT INSERT (command_id, queue, type, schema_version, payload, priority, tenant, entity_type,
                  entity_id, max_attempts, run_at, deadline, correlation_id, causation_id, traceparent),
          SELECT (id, command_id)
       ON {schema}.commands TO {schema}_producer;
    GRANT EXECUTE ON FUNCTION {schema}.new_uuid(), {schema}.emit_event, {schema}.emit_events,
          {schema}.emit_event_arrays, {schema}.send_command, {schema}.send_commands,
          {schema}.send_command_arrays TO {schema}_producer;
END
$do$;
