-- What comes over HTTP: receipts, those that are held, and the processes that receive.
-- oldest code: 3
-- functions: first
--
-- Code of before knows none of these tables. Its workers make their partitions all the same, since make_partitions
-- does; they drop none: the view `partitions` has the three tables that they know, every_partition has all.

-- ------------------------------------------------------------------------------------ receipts
-- One row for each request that was answered 2xx, written once and never changed, but by the release of what was held
-- and by an erasure. received_at is the time in the receipt_id (receipt_time), to the millisecond, so who knows the id
-- knows the partition. A partition a day.

CREATE TABLE {schema}.receipts (
    receipt_id   uuid NOT NULL,
    received_at  timestamptz NOT NULL,
    source       text NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 255),
    -- What was answered. held: and perhaps is still (held_receipts).
    outcome      text NOT NULL CHECK (outcome IN ('stored', 'duplicate', 'contradiction', 'broken', 'held')),
    event_ids    uuid[] NOT NULL,
    body         bytea,    -- as it came; NULL: a duplicate's is that of the first one, or it was erased
    body_bytes   integer NOT NULL,
    content_type text,
    headers      jsonb,    -- those of the signature, and those that the source keeps
    address      text,
    key_id       text,
    stored_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (received_at, receipt_id)
) PARTITION BY RANGE (received_at);

-- Partial, though all rows are in it: so that no look-up by id takes it, however empty a day is believed to be.
CREATE INDEX receipts_source ON {schema}.receipts (source, received_at, receipt_id) WHERE source IS NOT NULL;

-- Receipts of days that are gone, of events that are not settled yet.
CREATE TABLE {schema}.kept_receipts (
    LIKE {schema}.receipts INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    PRIMARY KEY (receipt_id)
);

-- The events of receipts whose source is paused, in the order in which they came. No partitions: what is held is as
-- hot as an event that waits.
CREATE TABLE {schema}.held_receipts (
    position   bigint GENERATED ALWAYS AS IDENTITY,
    source     text NOT NULL,
    receipt_id uuid NOT NULL,
    events     jsonb NOT NULL,  -- drafts, as write_received takes them
    held_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (source, position)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX held_receipts_receipt ON {schema}.held_receipts (receipt_id);

-- A row for each source of which something is held: newer receipts of it queue behind. By it whoever receives need not
-- look into held_receipts, which may have a million rows, living or dead.
CREATE TABLE {schema}.held_sources (
    source  text PRIMARY KEY,
    held_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- ----------------------------------------------------------------------------------- receivers
-- A row for each process that receives, as workers has one for each that works. A number is its process under a
-- supervisor.

CREATE TABLE {schema}.receivers (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    process    integer,
    host       text NOT NULL,
    pid        integer NOT NULL,
    version    text NOT NULL,
    sources    text[] NOT NULL DEFAULT '{}',
    holds      text[] NOT NULL DEFAULT '{}',  -- those of them that its settings pause
    state      text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'stopped', 'dead')),
    started_at timestamptz NOT NULL DEFAULT now(),
    beat_at    timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz
) WITH (fillfactor = 50);  -- a heartbeat every few seconds: room for HOT updates

ALTER TABLE {schema}.workers ADD COLUMN process integer;  -- under a supervisor; NULL: there is none

-- ------------------------------------------------------------------------------------ controls
-- hold: what comes is stored, and waits. refuse: a webhook source is answered 503.

ALTER TABLE {schema}.controls ADD COLUMN mode text NOT NULL DEFAULT 'hold';
ALTER TABLE {schema}.controls DROP CONSTRAINT controls_kind_check;
ALTER TABLE {schema}.controls
    ADD CONSTRAINT controls_kind_check CHECK (kind IN ('type', 'topic', 'queue', 'schedule', 'source')),
    ADD CONSTRAINT controls_mode_check CHECK (mode = 'hold' OR (mode = 'refuse' AND kind = 'source'));

-- ---------------------------------------------------------------------------------- partitions

ALTER TABLE {schema}.retired DROP CONSTRAINT retired_parent_check;
ALTER TABLE {schema}.retired ADD CONSTRAINT retired_parent_check
    CHECK (parent IN ('bodies', 'events_history', 'commands_history', 'receipts'));

CREATE VIEW {schema}.every_partition AS
SELECT parent.relname::text AS parent, part.relname::text AS part, part.oid AS oid,
       substring(bound.text FROM $r$FROM \('([^']+)'\)$r$)::timestamptz AS low,
       substring(bound.text FROM $r$TO \('([^']+)'\)$r$)::timestamptz AS high,
       i.inhdetachpending AS pending
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid
  JOIN pg_class part ON part.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid) AS text OFFSET 0) bound
 WHERE parent.relnamespace = to_regnamespace('{schema}') AND parent.relkind = 'p'
   AND parent.relname IN ('bodies', 'events_history', 'commands_history', 'receipts')
   AND bound.text IS NOT NULL;

-- --------------------------------------------------------------------------------------- roles
-- As in 0002: without the right to create roles, an administrator grants the same to roles of their own.

DO $do$
BEGIN
    IF to_regrole('{schema}_receiver') IS NULL THEN
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', '{schema}_receiver');
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % was not created: the right to create roles is missing', '{schema}_receiver';
        END;
    END IF;

    -- A receiver calls receive, and reads nothing of what anybody sent.
    IF to_regrole('{schema}_receiver') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA {schema} TO {schema}_receiver;
        GRANT SELECT ON {schema}.controls, {schema}.schema_migrations, {schema}.schema_functions TO {schema}_receiver;
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.receivers TO {schema}_receiver;
        -- The functions were made before the role was.
        GRANT EXECUTE ON FUNCTION {schema}.receive, {schema}.answered TO {schema}_receiver;
    END IF;

    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT ON {schema}.receipts, {schema}.kept_receipts, {schema}.held_receipts, {schema}.held_sources,
                        {schema}.every_partition
           TO {schema}_worker;
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.receivers TO {schema}_worker;
    END IF;
END
$do$;

-- Room for the first two weeks; workers make more.
SELECT {schema}.make_partitions(14);
