-- What calls functions: triggers, the defaults of uuids, and the first partitions.
-- oldest code: 3
-- functions: first
--
-- Triggers of one kind fire in the order of their names. Their conditions are in WHEN, so that a row that they have
-- nothing to say about costs no call.

-- Time-ordered UUIDs (RFC 9562, version 7) keep the unique index of a hot table and the uuid index of a day's history
-- append-mostly (ADR 5).
ALTER TABLE {schema}.events ALTER COLUMN event_id SET DEFAULT {schema}.new_uuid();
ALTER TABLE {schema}.commands ALTER COLUMN command_id SET DEFAULT {schema}.new_uuid();
ALTER TABLE {schema}.batches ALTER COLUMN batch_id SET DEFAULT {schema}.new_uuid();

-- ---------------------------------------------------------------------------------- transitions
-- The table of legal transitions (promise 8). A row leaves the hot table only by its settlement, into history; there
-- its status does not change any more.

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
            OR (OLD.status = 'failed' AND NEW.status = 'pending')
            OR (OLD.ordering_key IS NOT NULL AND OLD.needs = 0
                AND (OLD.status, NEW.status) IN (('waiting', 'running'), ('running', 'waiting')))))
    EXECUTE FUNCTION {schema}.refuse_transition();

-- An event is an immutable fact. The trigger names its columns, so other updates do not pay for it.
CREATE TRIGGER events_immutable
    BEFORE UPDATE OF event_id, type, schema_version, source, tenant, entity_type, entity_id, payload,
        occurred_at, created_at
    ON {schema}.events FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_change();

-- ------------------------------------------------------------------------------------- bounds
-- What travels with a row is bounded where it is written, and nowhere else: a CHECK would be asked again at every
-- UPDATE, so a row from before with more would never be claimed, retried or dead-lettered, and would spoil each page
-- that has it (ADR 17). Their names come before events_accept and commands_body, so that a key is refused before an
-- index is asked to hold it.
--
-- What an event or a command inherits from the row whose handler wrote it, and a member from its batch, was accepted
-- once; what the handler gives itself is checked by ctx.emit and ctx.send. A replay is the same row once more.

CREATE TRIGGER events_above_text BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (greatest(octet_length(NEW.type), octet_length(NEW.topic), octet_length(NEW.source),
                   octet_length(NEW.ordering_key), octet_length(NEW.dedup_key), octet_length(NEW.entity_type),
                   octet_length(NEW.entity_id), octet_length(NEW.tenant), octet_length(NEW.correlation_id),
                   octet_length(NEW.traceparent)) > 255
          AND (NEW.origin_kind IS NULL
               OR greatest(octet_length(NEW.type), octet_length(NEW.topic), octet_length(NEW.source),
                           octet_length(NEW.ordering_key), octet_length(NEW.dedup_key),
                           octet_length(NEW.entity_type), octet_length(NEW.entity_id)) > 255))
    EXECUTE FUNCTION {schema}.refuse_long('type', 'topic', 'source', 'ordering_key', 'dedup_key', 'entity_type',
        'entity_id', 'tenant', 'correlation_id', 'traceparent');

CREATE TRIGGER commands_above_text BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.replay_of IS NULL
          AND greatest(octet_length(NEW.type), octet_length(NEW.queue), octet_length(NEW.ordering_key),
                       octet_length(NEW.unique_key), octet_length(NEW.entity_type), octet_length(NEW.entity_id),
                       octet_length(NEW.tenant), octet_length(NEW.correlation_id),
                       octet_length(NEW.traceparent)) > 255
          AND (NEW.origin_kind NOT IN ('event', 'command') AND NEW.batch_id IS NULL
               OR greatest(octet_length(NEW.type), octet_length(NEW.queue), octet_length(NEW.ordering_key),
                           octet_length(NEW.unique_key), octet_length(NEW.entity_type),
                           octet_length(NEW.entity_id)) > 255))
    EXECUTE FUNCTION {schema}.refuse_long('type', 'queue', 'ordering_key', 'unique_key', 'entity_type', 'entity_id',
        'tenant', 'correlation_id', 'traceparent');

-- Its members inherit from it.
CREATE TRIGGER batches_above_text BEFORE INSERT ON {schema}.batches FOR EACH ROW
    WHEN (NEW.origin_kind = 'api'
          AND greatest(octet_length(NEW.tenant), octet_length(NEW.correlation_id),
                       octet_length(NEW.traceparent)) > 255)
    EXECUTE FUNCTION {schema}.refuse_long('tenant', 'correlation_id', 'traceparent');

-- write_events records keys before it writes events. (No WHEN: accept_event's INSERT would read it anew for each row,
-- which costs five times as much as the call.)
CREATE TRIGGER dedup_above_text BEFORE INSERT ON {schema}.dedup FOR EACH ROW
    EXECUTE FUNCTION {schema}.refuse_long_key();

-- By their text, which is what a worker has in memory: ten bytes of jsonb may be a number of 100,000 digits. Baggage
-- (W3C) has 8,192 bytes at most, tracestate 512: 16 KiB leave as much again.
CREATE TRIGGER events_above_headers BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (jsonb_typeof(NEW.headers) <> 'object' OR octet_length(NEW.headers::text) > 16384)
    EXECUTE FUNCTION {schema}.refuse_headers();

-- ----------------------------------------------------------------------------------- reception

-- Its name comes before events_body: keys are read from the payload before that moves away.
CREATE TRIGGER events_accept BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (coalesce(NEW.bucket, -1) < 0) EXECUTE FUNCTION {schema}.accept_event();

-- A row must stay small, since it moves when it settles (8 KB rows: 7,000 against 487,000 rows/s).
CREATE TRIGGER events_body BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (pg_column_size(NEW.payload) > 1500) EXECUTE FUNCTION {schema}.put_body();
CREATE TRIGGER commands_body BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (pg_column_size(NEW.payload) > 1500) EXECUTE FUNCTION {schema}.put_body();

-- A command whose producer names no queue gets the one that its handler declares.
CREATE TRIGGER commands_queue BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.queue IS NULL) EXECUTE FUNCTION {schema}.fill_queue();

-- ------------------------------------------------------------------------------------- wake-ups

CREATE TRIGGER events_inserted AFTER INSERT ON {schema}.events
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.events_inserted();
CREATE TRIGGER commands_inserted AFTER INSERT ON {schema}.commands
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.commands_inserted();
CREATE TRIGGER controls_changed AFTER INSERT OR UPDATE OR DELETE ON {schema}.controls
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.controls_changed();

-- --------------------------------------------------------------------------------------- lines
-- Named so that they fire after events_transition and commands_transition, which judge the move that was meant.

-- A dead letter that is tried again waits in its line; one of a batch topic arrives once more, to be lined up in front of
-- its line (line_up_arrivals.sql). What waits for a retry of its own, or was in the chunk at a worker's death, is no dead
-- letter: that runs alone, from its lane.
CREATE TRIGGER events_wait BEFORE UPDATE OF status ON {schema}.events FOR EACH ROW
    WHEN (NEW.status = 'pending'
          AND (NEW.mode = 'sequential' OR (NEW.mode = 'batch' AND OLD.status = 'failed')))
    EXECUTE FUNCTION {schema}.stay_in_line();

CREATE TRIGGER events_head_gone AFTER DELETE ON {schema}.events FOR EACH ROW
    WHEN (OLD.head) EXECUTE FUNCTION {schema}.succeed_head();
CREATE TRIGGER events_head_left AFTER UPDATE OF head ON {schema}.events FOR EACH ROW
    WHEN (OLD.head AND NOT NEW.head) EXECUTE FUNCTION {schema}.succeed_head();

CREATE TRIGGER commands_wait BEFORE INSERT OR UPDATE OF status ON {schema}.commands FOR EACH ROW
    WHEN (NEW.ordering_key IS NOT NULL AND NEW.status = 'pending')
    EXECUTE FUNCTION {schema}.stand_in_line();

-- ------------------------------------------------------------------------------------ suspects

CREATE TRIGGER commands_suspect BEFORE UPDATE OF crashes ON {schema}.commands FOR EACH ROW
    WHEN (NEW.crashes <> OLD.crashes) EXECUTE FUNCTION {schema}.suspect();
CREATE TRIGGER commands_suspect_new BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.crashes > 0 AND NEW.suspect_group IS NULL) EXECUTE FUNCTION {schema}.suspect();

-- ------------------------------------------------------------------------------------- batches

CREATE TRIGGER commands_settled AFTER INSERT ON {schema}.commands_history
    REFERENCING NEW TABLE AS settled FOR EACH STATEMENT EXECUTE FUNCTION {schema}.commands_settled();
CREATE TRIGGER commands_failed AFTER UPDATE OF status ON {schema}.commands FOR EACH ROW
    WHEN ((OLD.status = 'failed') <> (NEW.status = 'failed') AND (NEW.batch_id IS NOT NULL OR NEW.awaited))
    EXECUTE FUNCTION {schema}.commands_failed();

-- Room for the first two weeks of history; workers make more (inboxd/maintenance).
SELECT {schema}.make_partitions(14);
