-- The tables: hot rows, bodies, history, workers, statistics, audit (design section 4).
-- oldest code: 1
--
-- Hot tables (events, commands) hold what is unsettled; history holds what is settled, and no row
-- is ever in both: a settlement is one DELETE … RETURNING into the history table. Hot tables have
-- no foreign keys (they would lock the referenced row at every insert) and as few indexes as the
-- claims need. Times that producers give lie between 1970 and 9999: what drivers cannot read (BC,
-- infinity) would otherwise spoil the page that holds it. {schema} is replaced by the schema's name when this file is loaded.

CREATE SCHEMA IF NOT EXISTS {schema};

-- Time-ordered UUIDs (RFC 9562, version 7) keep the unique index of a hot table and the uuid index
-- of a day's history append-mostly. PostgreSQL 18 has them built in.
DO $do$
BEGIN
    IF current_setting('server_version_num')::int >= 180000 THEN
        CREATE FUNCTION {schema}.new_uuid() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
            AS 'SELECT pg_catalog.uuidv7()';
    ELSE
        CREATE FUNCTION {schema}.new_uuid() RETURNS uuid LANGUAGE sql VOLATILE PARALLEL SAFE
            AS $fn$
                SELECT pg_catalog.encode(
                    pg_catalog.int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint << 16
                                        | 28672 | (random() * 4095)::bigint)
                    || substring(pg_catalog.uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid
            $fn$;
    END IF;
END
$do$;

-- ------------------------------------------------------------------------------------- bodies
-- Payloads above about 1.5 KB: insert-only, never moved with their row. A partition a day.

CREATE SEQUENCE {schema}.bodies_id_seq;

CREATE TABLE {schema}.bodies (
    id         bigint NOT NULL DEFAULT nextval('{schema}.bodies_id_seq'),
    created_at timestamptz NOT NULL DEFAULT now(),
    payload    jsonb,
    raw        bytea,
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

ALTER SEQUENCE {schema}.bodies_id_seq OWNED BY {schema}.bodies.id;

-- ------------------------------------------------------------------------------------- events

CREATE TABLE {schema}.events (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid NOT NULL DEFAULT {schema}.new_uuid(),
    topic          text NOT NULL DEFAULT 'default' CHECK (octet_length(topic) BETWEEN 1 AND 255),
    mode           text NOT NULL DEFAULT 'single' CHECK (mode IN ('single', 'sequential', 'batch')),
    type           text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    schema_version smallint NOT NULL DEFAULT 1 CHECK (schema_version > 0),
    source         text,
    ordering_key   text,
    bucket         smallint,
    dedup_key      text,
    tenant         text,
    entity_type    text,
    entity_id      text,
    payload        jsonb,
    headers        jsonb,
    correlation_id text,
    causation_id   uuid,
    traceparent    text,
    status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'waiting', 'failed')),
    attempts       smallint NOT NULL DEFAULT 0,
    crashes        smallint NOT NULL DEFAULT 0,
    run_at         timestamptz NOT NULL DEFAULT now()
                   CHECK (run_at >= '1970-01-01Z' AND run_at < '9999-01-01Z'),
    errors         jsonb,
    fingerprint    text,
    body_id        bigint,
    body_at        timestamptz,
    body_bytes     integer,
    occurred_at    timestamptz NOT NULL DEFAULT now()
                   CHECK (occurred_at >= '1970-01-01Z' AND occurred_at < '9999-01-01Z'),
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now()
) WITH (
    -- Rows come and go; few are ever updated, so pages are filled to the brim.
    fillfactor = 100,
    -- A drain leaves a dead row for each live one: vacuum by count, not by a share of a table whose
    -- size swings between nothing and millions, and without the pauses meant for large cold tables.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE UNIQUE INDEX events_event_id ON {schema}.events (event_id);
-- A lane is a topic and a type: what is paused or served by nobody is never walked over (ADR 2).
CREATE INDEX events_lane ON {schema}.events (topic, type, run_at, id) WHERE status = 'pending';
CREATE INDEX events_failed ON {schema}.events (type, id) WHERE status = 'failed';

CREATE TABLE {schema}.events_history (
    LIKE {schema}.events INCLUDING STORAGE INCLUDING COMPRESSION,
    finished_at timestamptz NOT NULL,
    duration    interval,
    worker_id   uuid,
    CHECK (status IN ('succeeded', 'failed', 'cancelled', 'dismissed'))
) PARTITION BY RANGE (finished_at);

CREATE INDEX events_history_id ON {schema}.events_history (id);
CREATE INDEX events_history_event_id ON {schema}.events_history (event_id);

-- ----------------------------------------------------------------------------------- commands

CREATE TABLE {schema}.commands (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command_id       uuid NOT NULL DEFAULT {schema}.new_uuid(),
    queue            text NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    type             text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    schema_version   smallint NOT NULL DEFAULT 1 CHECK (schema_version > 0),
    payload          jsonb,
    priority         smallint NOT NULL DEFAULT 0,
    ordering_key     text,
    bucket           smallint,
    unique_key       text,
    tenant           text,
    entity_type      text,
    entity_id        text,
    status           text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'waiting', 'running', 'failed')),
    attempts         smallint NOT NULL DEFAULT 0,
    max_attempts     smallint CHECK (max_attempts > 0),
    crashes          smallint NOT NULL DEFAULT 0,
    fence            bigint NOT NULL DEFAULT 0,
    run_at           timestamptz NOT NULL DEFAULT now()
                     CHECK (run_at >= '1970-01-01Z' AND run_at < '9999-01-01Z'),
    deadline         timestamptz CHECK (deadline >= '1970-01-01Z' AND deadline < '9999-01-01Z'),
    worker_id        uuid,
    started_at       timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    origin_kind      text NOT NULL DEFAULT 'api'
                     CHECK (origin_kind IN ('event', 'command', 'batch', 'replay', 'schedule', 'api')),
    origin_id        bigint,
    replay_of        bigint,
    batch_id         bigint,
    correlation_id   text,
    causation_id     uuid,
    traceparent      text,
    errors           jsonb,
    fingerprint      text,
    result           jsonb,
    progress         jsonb,
    body_id          bigint,
    body_at          timestamptz,
    body_bytes       integer,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CHECK ((status = 'running') = (worker_id IS NOT NULL))
) WITH (
    -- Every row is updated once, by its claim: room for the new version on the same page halves the
    -- pages that a claim dirties.
    fillfactor = 70,
    -- As for events; a claim and a settlement leave two dead rows for each command.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE UNIQUE INDEX commands_command_id ON {schema}.commands (command_id);
-- A lane is a queue, a type and a priority (ADR 2); a suspect (crashes > 0) is claimed one at a time.
CREATE INDEX commands_lane ON {schema}.commands (queue, type, priority, run_at, id)
    WHERE status = 'pending' AND crashes = 0;
CREATE INDEX commands_suspects ON {schema}.commands (run_at, id) WHERE status = 'pending' AND crashes > 0;
CREATE INDEX commands_running ON {schema}.commands (worker_id) WHERE status = 'running';
CREATE INDEX commands_failed ON {schema}.commands (type, id) WHERE status = 'failed';

CREATE TABLE {schema}.commands_history (
    LIKE {schema}.commands INCLUDING STORAGE INCLUDING COMPRESSION,
    finished_at timestamptz NOT NULL,
    duration    interval,
    CHECK (status IN ('succeeded', 'failed', 'cancelled', 'dismissed'))
) PARTITION BY RANGE (finished_at);

CREATE INDEX commands_history_id ON {schema}.commands_history (id);
CREATE INDEX commands_history_command_id ON {schema}.commands_history (command_id);

-- -------------------------------------------------------------------------------- legal moves
-- The table of legal transitions (promise 8), checked in the WHEN clause, so that a legal one costs
-- no function call. A row leaves the hot table only by its settlement, into history; there its
-- status does not change any more.

CREATE FUNCTION {schema}.refuse_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'illegal transition of % %: % -> %', TG_TABLE_NAME, OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'IB002';
END
$$;

CREATE TRIGGER events_transition BEFORE UPDATE OF status ON {schema}.events FOR EACH ROW
    WHEN (NOT (OLD.status = NEW.status
            OR (OLD.status = 'pending' AND NEW.status IN ('waiting', 'failed'))
            OR (OLD.status = 'waiting' AND NEW.status IN ('pending', 'failed'))
            OR (OLD.status = 'failed' AND NEW.status = 'pending')))
    EXECUTE FUNCTION {schema}.refuse_transition();

CREATE TRIGGER commands_transition BEFORE UPDATE OF status ON {schema}.commands FOR EACH ROW
    WHEN (NOT (OLD.status = NEW.status
            OR (OLD.status = 'pending' AND NEW.status IN ('running', 'waiting', 'failed'))
            OR (OLD.status = 'waiting' AND NEW.status IN ('pending', 'failed'))
            OR (OLD.status = 'running' AND NEW.status IN ('pending', 'failed'))
            OR (OLD.status = 'failed' AND NEW.status = 'pending')))
    EXECUTE FUNCTION {schema}.refuse_transition();

-- An event is an immutable fact. The trigger names its columns, so other updates do not pay for it.
CREATE FUNCTION {schema}.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'event % is a fact: what it says does not change', OLD.id USING ERRCODE = 'IB003';
END
$$;

CREATE TRIGGER events_immutable
    BEFORE UPDATE OF event_id, type, schema_version, source, tenant, entity_type, entity_id, payload,
        occurred_at, created_at
    ON {schema}.events FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_change();

-- ------------------------------------------------------------------------------------ workers
-- A row for each daemon process. heartbeat is a number: nobody compares clocks.

CREATE TABLE {schema}.workers (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    host       text NOT NULL,
    pid        integer NOT NULL,
    version    text NOT NULL,
    events     text[] NOT NULL,
    commands   text[] NOT NULL,
    queues     text[] NOT NULL,
    declares   text NOT NULL,
    state      text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'stopped', 'dead')),
    heartbeat  bigint NOT NULL DEFAULT 0,
    in_flight  integer NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat_at    timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz
) WITH (fillfactor = 50);  -- a heartbeat every few seconds: room for HOT updates

-- What the fleet declared last: gives a command its queue when its producer names none.
CREATE TABLE {schema}.declared_types (
    kind        text NOT NULL CHECK (kind IN ('event', 'command')),
    type        text NOT NULL,
    queue       text,
    declared_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (kind, type)
);

-- ------------------------------------------------------------------------- statistics, audit

CREATE TABLE {schema}.stats (
    minute    timestamptz NOT NULL,
    worker_id uuid NOT NULL,
    kind      text NOT NULL,
    type      text NOT NULL,
    outcome   text NOT NULL,
    count     bigint NOT NULL,
    total     double precision NOT NULL,  -- seconds
    maximum   double precision NOT NULL,  -- seconds
    PRIMARY KEY (minute, worker_id, kind, type, outcome)
);

CREATE TABLE {schema}.audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    reason text,
    count  bigint NOT NULL
);

-- --------------------------------------------------------------------------------- partitions
-- A partition a day (UTC), made ahead of time by LIKE + ATTACH, which waits for no reader and stops
-- no writer (CREATE … PARTITION OF would lock the parent). No default partition: it would forbid
-- concurrent detach. Returns how many were made.

CREATE FUNCTION {schema}.make_partitions(days_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent text;
    day    date;
    part   text;
    made   integer := 0;
BEGIN
    FOREACH parent IN ARRAY ARRAY['bodies', 'events_history', 'commands_history'] LOOP
        FOR day IN SELECT generate_series(current_date - 1, current_date + days_ahead, '1 day')::date LOOP
            part := parent || to_char(day, '_YYYYMMDD');
            CONTINUE WHEN to_regclass('{schema}.' || part) IS NOT NULL;
            EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.%I INCLUDING DEFAULTS '
                           'INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE INCLUDING COMPRESSION)',
                           part, parent);
            EXECUTE format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L)',
                           parent, part, day::timestamptz, (day + 1)::timestamptz);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;

SELECT {schema}.make_partitions(14);
