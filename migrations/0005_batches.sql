-- Batches, workflows and what waits for what (design section 8, ADR 10).
-- oldest code: 4
--
-- A batch counts how its members ended. The counting is the database's, so that every way for a
-- command to end counts, also one that an older worker or an operator takes: what reaches history
-- is counted by a statement trigger there, a dead letter (which stays in the hot table) by a row
-- trigger. Both only append a line to batch_progress, in the settling transaction; fold_batch adds
-- the lines up after its commit. One counter row that each command updates would put the whole batch
-- in one line, and «append, then look whether all have ended» sees, when two members end together,
-- neither the other's line.
--
-- What waits for a command or a batch has an edge for each prerequisite in dependencies, and their
-- number in its column needs. An edge is deleted once, by whoever settles its prerequisite, and each
-- deletion takes one off needs: that is why a continuation is released exactly once (promise 6).

CREATE TABLE {schema}.batches (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id       uuid NOT NULL UNIQUE DEFAULT {schema}.new_uuid(),
    kind           text NOT NULL DEFAULT 'batch' CHECK (kind IN ('batch', 'workflow')),
    name           text NOT NULL DEFAULT '' CHECK (octet_length(name) <= 255),
    parent_id      bigint,  -- the batch (workflow) that it is a member of
    tenant         text,
    status         text NOT NULL DEFAULT 'pending'
                   CHECK (status IN ('pending', 'waiting', 'running', 'succeeded', 'failed', 'cancelled')),
    size           bigint NOT NULL DEFAULT 0,
    succeeded      bigint NOT NULL DEFAULT 0,
    failed         bigint NOT NULL DEFAULT 0,
    cancelled      bigint NOT NULL DEFAULT 0,
    skipped        bigint NOT NULL DEFAULT 0,
    needs          integer NOT NULL DEFAULT 0,          -- prerequisites that have not come yet
    awaited        boolean NOT NULL DEFAULT false,      -- something waits for it
    starting       boolean NOT NULL DEFAULT false,      -- members that waited for it are being released
    ending         text CHECK (ending IN ('cancelled', 'skipped')),  -- its members are being ended
    origin_kind    text NOT NULL DEFAULT 'api'
                   CHECK (origin_kind IN ('event', 'command', 'batch', 'replay', 'schedule', 'api')),
    origin_id      bigint,
    correlation_id text,
    causation_id   uuid,
    traceparent    text,
    created_at     timestamptz NOT NULL DEFAULT now(),
    closed_at      timestamptz,                         -- null: open, more may be added
    expires_at     timestamptz,                         -- when an open one counts as abandoned
    expired_at     timestamptz,
    finished_at    timestamptz,
    failed_at      timestamptz,                         -- when it first failed, healed since or not
    updated_at     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);  -- a fold updates it in place

CREATE INDEX batches_parent ON {schema}.batches (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX batches_causation ON {schema}.batches (causation_id) WHERE causation_id IS NOT NULL;
CREATE INDEX batches_open ON {schema}.batches (expires_at) WHERE closed_at IS NULL;
CREATE INDEX batches_status ON {schema}.batches (status, id);

-- What happened to a batch since it was folded last: small, and emptied all the time.
CREATE TABLE {schema}.batch_progress (
    batch_id  bigint NOT NULL,
    size      bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    skipped   bigint NOT NULL DEFAULT 0,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX batch_progress_batch ON {schema}.batch_progress (batch_id);

-- The uuids of commands or batches: «waiting» waits for «needs».
CREATE TABLE {schema}.dependencies (
    needs     uuid NOT NULL,
    waiting   uuid NOT NULL,
    condition text NOT NULL DEFAULT 'succeeded' CHECK (condition IN ('succeeded', 'failed', 'finished')),
    PRIMARY KEY (needs, waiting, condition)
);
CREATE INDEX dependencies_waiting ON {schema}.dependencies (waiting);

-- The names of a workflow's members.
CREATE TABLE {schema}.steps (
    batch_id bigint NOT NULL,
    name     text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    member   uuid NOT NULL UNIQUE,
    PRIMARY KEY (batch_id, name)
);

-- Every replay, in place or as a new row.
CREATE TABLE {schema}.replays (
    kind   text NOT NULL CHECK (kind IN ('event', 'command')),
    old_id bigint NOT NULL,
    new_id bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text NOT NULL,
    reason text
);
CREATE INDEX replays_old ON {schema}.replays (kind, old_id);
CREATE INDEX replays_new ON {schema}.replays (kind, new_id);

ALTER TABLE {schema}.commands
    ADD needs integer NOT NULL DEFAULT 0,       -- prerequisites that have not come yet
    ADD awaited boolean NOT NULL DEFAULT false, -- something waits for it
    ADD CHECK (needs >= 0), ADD CHECK (needs = 0 OR status IN ('waiting', 'failed'));
ALTER TABLE {schema}.commands_history ADD awaited boolean;  -- null: written by a worker that knows it not

-- Not the running ones: a claim then adds nothing to it.
CREATE INDEX commands_batch ON {schema}.commands (batch_id, id) WHERE batch_id IS NOT NULL AND status <> 'running';
CREATE INDEX commands_held_up ON {schema}.commands (batch_id) WHERE batch_id IS NOT NULL AND status = 'waiting' AND needs > 0;
-- With the worker, so that workers that settle one batch side by side do not write to the same end of it.
CREATE INDEX commands_history_batch ON {schema}.commands_history (batch_id, worker_id) WHERE batch_id IS NOT NULL;

-- ------------------------------------------------------------------------------------- release

-- Wake the command processors as an INSERT does (0002).
CREATE FUNCTION {schema}.wake_commands() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    flag bigint := pg_sequence_last_value('{schema}.commands_flag'::regclass);
BEGIN
    IF flag = 0 THEN
        IF pg_try_advisory_xact_lock_shared(hashtext('{schema}'), 2) THEN
            IF pg_sequence_last_value('{schema}.commands_flag'::regclass) = 0 THEN
                RETURN;
            END IF;
        END IF;
    ELSIF flag = 2 THEN
        RETURN;
    END IF;
    IF current_setting('inboxd.notify', true) = 'off' THEN
        RETURN;
    END IF;
    PERFORM pg_notify('{schema}_commands', '');
END
$$;

-- What an end means for an edge: met; never (it can never be met any more); null (it may still be).
-- A dead letter may be replayed, so it leaves «succeeded» open. skipped: ended because nobody needed it.
CREATE FUNCTION {schema}.edge_verdict(condition text, outcome text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN condition = 'finished' OR condition = outcome THEN 'met'
        WHEN condition = 'succeeded' AND outcome = 'failed' THEN NULL
        WHEN outcome = 'cancelled' THEN 'cancelled'
        ELSE 'skipped'
    END
$$;

-- The prerequisites «ended» ended so: release what waited for nothing else, and end what can never be
-- released any more, and what waits for that, and so on; in a loop, since a graph may be deep.
-- Runs in the transaction that settles the prerequisites. Dependents are locked in one order, and before
-- their edges are deleted, as a cancellation does, so that neither two settlements that release the same
-- ones nor these two deadlock. A released command is due from now on,
-- so that it stands before no worker's cursor.
CREATE FUNCTION {schema}.release(ended uuid[], outcomes text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    freed   uuid[];
    takes   integer[];
    lost    uuid[];
    lost_as text[];
    found_  integer;
    wake    boolean := false;
BEGIN
    WHILE cardinality(ended) > 0 LOOP
        PERFORM FROM {schema}.commands c
          WHERE c.command_id IN (SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = ANY (ended))
          ORDER BY c.command_id FOR NO KEY UPDATE;
        PERFORM FROM {schema}.batches b
          WHERE b.batch_id IN (SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = ANY (ended))
          ORDER BY b.id FOR NO KEY UPDATE;
        WITH gone AS (
            DELETE FROM {schema}.dependencies d USING unnest(ended, outcomes) AS e(id, outcome)
             WHERE d.needs = e.id AND {schema}.edge_verdict(d.condition, e.outcome) IS NOT NULL
            RETURNING d.waiting, {schema}.edge_verdict(d.condition, e.outcome) AS verdict
        ), judged AS (
            SELECT waiting, count(*)::integer AS takes, min(nullif(verdict, 'met')) AS never
              FROM gone GROUP BY waiting
        )
        SELECT array_agg(waiting) FILTER (WHERE never IS NULL), array_agg(judged.takes) FILTER (WHERE never IS NULL),
               array_agg(waiting) FILTER (WHERE never IS NOT NULL), array_agg(never) FILTER (WHERE never IS NOT NULL)
          INTO freed, takes, lost, lost_as FROM judged;
        ended := NULL;
        outcomes := NULL;
        IF freed IS NOT NULL THEN
            UPDATE {schema}.commands c
               SET needs = c.needs - f.takes,
                   status = CASE WHEN c.needs = f.takes AND c.status = 'waiting' THEN 'pending' ELSE c.status END,
                   run_at = CASE WHEN c.needs = f.takes THEN greatest(c.run_at, clock_timestamp()) ELSE c.run_at END,
                   updated_at = clock_timestamp()
              FROM unnest(freed, takes) AS f(id, takes) WHERE c.command_id = f.id;
            GET DIAGNOSTICS found_ = ROW_COUNT;
            wake := wake OR found_ > 0;
            IF found_ < cardinality(freed) THEN  -- some are batches: their members follow, page by page
                WITH begun AS (
                    UPDATE {schema}.batches b
                       SET needs = b.needs - f.takes,
                           starting = b.needs = f.takes,
                           status = CASE WHEN b.needs = f.takes THEN 'pending' ELSE b.status END,
                           updated_at = clock_timestamp()
                      FROM unnest(freed, takes) AS f(id, takes) WHERE b.batch_id = f.id
                    RETURNING b.id, b.starting
                )
                INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM begun WHERE starting;
            END IF;
        END IF;
        IF lost IS NOT NULL THEN
            DELETE FROM {schema}.dependencies WHERE waiting = ANY (lost);
            WITH never AS (
                UPDATE {schema}.batches b
                   SET ending = l.outcome, needs = 0, closed_at = coalesce(b.closed_at, clock_timestamp()),
                       updated_at = clock_timestamp()
                  FROM unnest(lost, lost_as) AS l(id, outcome)
                 WHERE b.batch_id = l.id AND b.ending IS NULL
                RETURNING b.id
            )
            INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM never;
            SELECT array_agg(e.command_id), array_agg(e.outcome) INTO ended, outcomes
              FROM {schema}.end_waiting(lost, lost_as) AS e WHERE e.awaited;
        END IF;
    END LOOP;
    IF wake THEN
        PERFORM {schema}.wake_commands();
    END IF;
END
$$;

-- End waiting commands that can never run. In history awaited is false, so that the trigger there leaves
-- their dependents to the caller's loop; not requested: skipped, not cancelled.
CREATE FUNCTION {schema}.end_waiting(ids uuid[], ends text[])
    RETURNS TABLE (command_id uuid, outcome text, awaited boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH gone AS (
        DELETE FROM {schema}.commands c USING unnest(ids, ends) AS l(id, outcome)
         WHERE c.command_id = l.id AND c.status = 'waiting'
        RETURNING c.*, l.outcome AS ended_as
    ), moved AS (
        INSERT INTO {schema}.commands_history
               (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
                unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes,
                fence, run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
                replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint,
                result, progress, body_id, body_at, body_bytes, created_at, updated_at, finished_at, awaited)
        SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
               unique_key, tenant, entity_type, entity_id, 'cancelled', attempts, max_attempts, crashes,
               fence, run_at, deadline, worker_id, started_at, ended_as = 'cancelled', origin_kind, origin_id,
               replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint,
               result, progress, body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(),
               false
          FROM gone
    )
    SELECT gone.command_id, gone.ended_as, gone.awaited FROM gone;
END
$$;

-- ------------------------------------------------------------------------------------ counting
-- What a row of history says of its batch: cancelled without a request is skipped (release); dismissed
-- was a dead letter before, and failed is one whose replay took its place: both were counted as failed.
-- A worker of the version before does not say whether something waits: then its edges are looked for.

CREATE FUNCTION {schema}.commands_settled() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ended    uuid[];
    outcomes text[];
BEGIN
    IF EXISTS (SELECT FROM settled WHERE batch_id IS NOT NULL) THEN
        INSERT INTO {schema}.batch_progress (batch_id, succeeded, failed, cancelled, skipped)
        SELECT batch_id, count(*) FILTER (WHERE status = 'succeeded'),
               -count(*) FILTER (WHERE status IN ('failed', 'dismissed')),
               count(*) FILTER (WHERE status = 'dismissed' OR status = 'cancelled' AND cancel_requested),
               count(*) FILTER (WHERE status = 'cancelled' AND NOT cancel_requested)
          FROM settled WHERE batch_id IS NOT NULL GROUP BY batch_id ORDER BY batch_id;
    END IF;
    SELECT array_agg(command_id),
           array_agg(CASE WHEN status = 'succeeded' THEN 'succeeded'
                          WHEN status = 'cancelled' AND NOT cancel_requested THEN 'skipped'
                          ELSE 'cancelled' END)
      INTO ended, outcomes FROM settled WHERE awaited IS NOT false AND status <> 'failed';
    IF ended IS NOT NULL THEN
        PERFORM {schema}.release(ended, outcomes);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER commands_settled AFTER INSERT ON {schema}.commands_history
    REFERENCING NEW TABLE AS settled FOR EACH STATEMENT EXECUTE FUNCTION {schema}.commands_settled();

CREATE FUNCTION {schema}.commands_failed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.batch_id IS NOT NULL THEN
        INSERT INTO {schema}.batch_progress (batch_id, failed)
        VALUES (NEW.batch_id, CASE WHEN NEW.status = 'failed' THEN 1 ELSE -1 END);
    END IF;
    IF NEW.awaited AND NEW.status = 'failed' THEN
        PERFORM {schema}.release(ARRAY[NEW.command_id], ARRAY['failed']);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER commands_failed AFTER UPDATE OF status ON {schema}.commands FOR EACH ROW
    WHEN ((OLD.status = 'failed') <> (NEW.status = 'failed') AND (NEW.batch_id IS NOT NULL OR NEW.awaited))
    EXECUTE FUNCTION {schema}.commands_failed();

-- As in 0003, with awaited.
CREATE OR REPLACE FUNCTION {schema}.settle_command(
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
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, duration, awaited)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'succeeded', attempts + 1, max_attempts, crashes,
           fence, run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id,
           replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, outcome,
           progress, body_id, body_at, body_bytes, created_at, now(), now(),
           make_interval(secs => seconds), awaited
      FROM gone;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease lost: command % is not held by this claim any more', command
            USING ERRCODE = 'IB001';
    END IF;
END
$$;

-- ---------------------------------------------------------------------------------------- fold

-- Add up what happened to a batch, judge its status, release what waited for it; one page of its
-- members is started or ended, if that is what it is about. The row is locked first, and read and
-- folded in later statements: what another fold took is gone by then, and what it saw is counted.
-- more: there is more to start or to end, call again. parent: the batch to fold next; its own lock is
-- not taken here, so that folds and cancellations, which go the other way, do not deadlock.
CREATE FUNCTION {schema}.fold_batch(
    batch bigint, page integer DEFAULT 1000,
    OUT status text, OUT unsettled bigint, OUT more boolean, OUT parent bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    b       record;
    d       record;
    moved   bigint := 0;
    outcome text;
    was     text;
    stuck   boolean;
BEGIN
    more := false;
    SELECT * INTO b FROM {schema}.batches WHERE id = batch FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    was := b.status;
    IF b.ending IS NOT NULL THEN
        moved := {schema}.end_members(b.id, b.ending, page);
    ELSIF b.starting THEN
        moved := {schema}.start_members(b.id, page);
    END IF;
    more := moved >= page;
    WITH gone AS (DELETE FROM {schema}.batch_progress WHERE batch_id = batch RETURNING *)
    SELECT coalesce(sum(size), 0) AS size, coalesce(sum(succeeded), 0) AS succeeded,
           coalesce(sum(failed), 0) AS failed, coalesce(sum(cancelled), 0) AS cancelled,
           coalesce(sum(skipped), 0) AS skipped
      INTO d FROM gone;
    b.size := b.size + d.size;
    b.succeeded := b.succeeded + d.succeeded;
    b.failed := b.failed + d.failed;
    b.cancelled := b.cancelled + d.cancelled;
    b.skipped := b.skipped + d.skipped;
    unsettled := b.size - b.succeeded - b.failed - b.cancelled - b.skipped;
    -- A member that failed holds up what waits for its success. Once all that is left waits so, nothing
    -- moves until somebody replays or dismisses it: the batch has come to rest, and it failed. What
    -- settles between the statements above and this one is unsettled above and no more waiting here,
    -- so nothing that can move is overlooked.
    stuck := unsettled > 0 AND b.failed > 0 AND NOT more AND unsettled
             = (SELECT count(*) FROM {schema}.commands c WHERE c.batch_id = batch AND c.status = 'waiting' AND c.needs > 0)
             + (SELECT count(*) FROM {schema}.batches n WHERE n.parent_id = batch AND n.status = 'waiting' AND n.needs > 0);
    status := CASE
        WHEN b.needs > 0 THEN 'waiting'
        WHEN unsettled > 0 AND NOT stuck OR b.closed_at IS NULL THEN
            CASE WHEN unsettled < b.size THEN 'running' ELSE 'pending' END
        WHEN b.failed > 0 THEN 'failed'
        WHEN b.cancelled > 0 OR b.ending IS NOT NULL OR b.skipped > 0 AND b.succeeded = 0 THEN 'cancelled'
        ELSE 'succeeded'
    END;
    UPDATE {schema}.batches
       SET size = b.size, succeeded = b.succeeded, failed = b.failed, cancelled = b.cancelled,
           skipped = b.skipped, status = fold_batch.status,
           starting = starting AND (closed_at IS NULL OR fold_batch.more),
           finished_at = CASE WHEN fold_batch.status IN ('succeeded', 'failed', 'cancelled')
                              THEN CASE WHEN status = fold_batch.status THEN finished_at
                                        ELSE clock_timestamp() END END,
           failed_at = CASE WHEN fold_batch.status = 'failed' THEN coalesce(failed_at, clock_timestamp())
                            ELSE failed_at END,
           updated_at = clock_timestamp()
     WHERE id = batch;
    IF status = was THEN
        RETURN;
    END IF;
    -- Ended without anybody's request: nobody needed it.
    outcome := CASE WHEN status = 'cancelled' AND b.cancelled = 0 AND b.ending IS DISTINCT FROM 'cancelled'
                    THEN 'skipped' ELSE status END;
    IF b.parent_id IS NOT NULL AND (was = 'failed' OR outcome IN ('succeeded', 'failed', 'cancelled', 'skipped')) THEN
        parent := b.parent_id;
        INSERT INTO {schema}.batch_progress (batch_id, succeeded, failed, cancelled, skipped)
        VALUES (parent, (outcome = 'succeeded')::integer,
                (outcome = 'failed')::integer - (was = 'failed')::integer,
                (outcome = 'cancelled')::integer, (outcome = 'skipped')::integer);
    END IF;
    IF b.awaited AND outcome IN ('succeeded', 'failed', 'cancelled', 'skipped') THEN
        PERFORM {schema}.release(ARRAY[b.batch_id], ARRAY[outcome]);
    END IF;
END
$$;

-- A page of the members that waited for their batch to start; returns how many. One that has edges of
-- its own (what follows a batch within this one) waits for those alone: they lie within as well.
CREATE FUNCTION {schema}.start_members(batch bigint, page integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    moved bigint;
BEGIN
    WITH begun AS (
        UPDATE {schema}.batches SET needs = needs - 1, starting = true
         WHERE parent_id = batch AND status = 'waiting' AND needs > 0
        RETURNING id
    )
    INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM begun;
    UPDATE {schema}.commands c
       SET needs = 0, status = 'pending', run_at = greatest(c.run_at, clock_timestamp()), updated_at = clock_timestamp()
      FROM (SELECT id FROM {schema}.commands
             WHERE batch_id = batch AND status = 'waiting' AND needs > 0
               AND NOT EXISTS (SELECT FROM {schema}.dependencies d WHERE d.waiting = command_id)
             ORDER BY batch_id, id LIMIT page FOR UPDATE) AS picked
     WHERE c.id = picked.id;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        PERFORM {schema}.wake_commands();
    END IF;
    RETURN moved;
END
$$;

-- A page of the members that have not begun is ended; those that run are asked to end. A dead letter
-- stays one. Returns how many were ended; a whole page if there may be more. Those that run come first,
-- since a settlement holds such a one when it takes what waits for it; and once more at the end, for what
-- was claimed meanwhile. What was given back meanwhile is a reason to come again.
CREATE FUNCTION {schema}.end_members(batch bigint, ends text, page integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    moved bigint;
BEGIN
    WITH never AS (
        UPDATE {schema}.batches
           SET ending = ends, needs = 0, closed_at = coalesce(closed_at, clock_timestamp())
         WHERE parent_id = batch AND status IN ('pending', 'waiting', 'running') AND ending IS NULL
        RETURNING id
    )
    INSERT INTO {schema}.batch_progress (batch_id) SELECT id FROM never;
    PERFORM {schema}.ask_members(batch);
    WITH gone AS (
        DELETE FROM {schema}.commands c
         USING (SELECT id FROM {schema}.commands
                 WHERE batch_id = batch AND status IN ('pending', 'waiting')
                 ORDER BY batch_id, id LIMIT page FOR UPDATE) AS picked
         WHERE c.id = picked.id
        RETURNING c.*
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, awaited)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'cancelled', attempts, max_attempts, crashes,
           fence, run_at, deadline, worker_id, started_at, ends = 'cancelled', origin_kind, origin_id,
           replay_of, batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result,
           progress, body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(), awaited
      FROM gone;
    GET DIAGNOSTICS moved = ROW_COUNT;
    PERFORM {schema}.ask_members(batch);
    IF moved < page AND EXISTS (SELECT FROM {schema}.commands
                                 WHERE batch_id = batch AND status IN ('pending', 'waiting')) THEN
        RETURN page;
    END IF;
    RETURN moved;
END
$$;

-- The members that run are asked to end.
CREATE FUNCTION {schema}.ask_members(batch bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    UPDATE {schema}.commands c SET cancel_requested = true, updated_at = clock_timestamp()
      FROM (SELECT id FROM {schema}.commands
             WHERE status = 'running' AND NOT cancel_requested AND batch_id = batch
               AND worker_id IN (SELECT id FROM {schema}.workers WHERE state IN ('running', 'draining'))
             ORDER BY id FOR NO KEY UPDATE) AS picked
     WHERE c.id = picked.id
$$;

-- --------------------------------------------------------------------- what producers may call

-- Where a member of a batch goes. An appender holds the batch FOR KEY SHARE: that stops a close, which
-- takes the row FOR UPDATE, and no fold. Raises when nothing may be added.
CREATE FUNCTION {schema}.hold_open_batch(batch uuid) RETURNS {schema}.batches
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b {schema}.batches;
BEGIN
    SELECT * INTO b FROM {schema}.batches WHERE batch_id = batch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'IB004',
            HINT = 'Use the id that open_batch returned, after its transaction has committed.';
    ELSIF b.ending IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) was cancelled: nothing can be added', b.id, b.name
            USING ERRCODE = 'IB005', HINT = 'Open another batch.';
    ELSIF b.closed_at IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) is closed: nothing can be added', b.id, b.name
            USING ERRCODE = 'IB005', HINT = 'Open it with open_batch, add, and close it last.';
    ELSIF b.expired_at IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) expired at %: it was left open too long', b.id, b.name, b.expired_at
            USING ERRCODE = 'IB005', HINT = 'Close it or cancel it; open the next one with a later expiry.';
    END IF;
    RETURN b;
END
$$;

-- No more will be added. It waits for whoever is adding.
CREATE FUNCTION {schema}.close_batch(batch uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b {schema}.batches;
BEGIN
    SELECT * INTO b FROM {schema}.batches WHERE batch_id = batch FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'IB004';
    ELSIF b.closed_at IS NOT NULL THEN
        RAISE EXCEPTION 'batch % (%) is closed already', b.id, b.name USING ERRCODE = 'IB005';
    END IF;
    UPDATE {schema}.batches SET closed_at = clock_timestamp(), updated_at = clock_timestamp() WHERE id = b.id;
    PERFORM {schema}.fold_batch(b.id);
    INSERT INTO {schema}.batch_progress (batch_id)  -- the workers' folds see to its parent and its pages
    SELECT b.id WHERE b.parent_id IS NOT NULL OR b.starting;
END
$$;

-- Insert commands from JSON; the internal half of the functions below. Returns their ids in the order given.
CREATE FUNCTION {schema}.insert_members(
    members jsonb, batch bigint, kind text, origin bigint, needs integer,
    tenant text, correlation text, causation uuid, trace text
) RETURNS uuid[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ids uuid[];
BEGIN
    PERFORM {schema}.refuse_unknown_keys(members, ARRAY[
        'command_id', 'queue', 'type', 'schema_version', 'payload', 'priority', 'run_at', 'deadline',
        'max_attempts', 'tenant', 'entity_type', 'entity_id', 'ordering_key']);
    WITH given AS MATERIALIZED (
        SELECT m.n, coalesce(r.command_id, {schema}.new_uuid()) AS id, r.*
          FROM jsonb_array_elements(members) WITH ORDINALITY AS m(value, n)
         CROSS JOIN LATERAL jsonb_to_record(m.value) AS r(
               command_id uuid, queue text, type text, schema_version integer, payload jsonb,
               priority integer, run_at timestamptz, deadline timestamptz, max_attempts integer,
               tenant text, entity_type text, entity_id text, ordering_key text)
    ), written AS (
        INSERT INTO {schema}.commands
               (command_id, queue, type, schema_version, payload, priority, run_at, deadline, max_attempts,
                tenant, entity_type, entity_id, ordering_key, origin_kind, origin_id, batch_id,
                correlation_id, causation_id, traceparent, needs, awaited, status)
        SELECT id, queue, type, coalesce(schema_version, 1), coalesce(payload, '{}'), coalesce(priority, 0),
               coalesce(run_at, now()), deadline, max_attempts, coalesce(given.tenant, insert_members.tenant),
               entity_type, entity_id, ordering_key, kind, origin, batch, correlation, causation, trace,
               insert_members.needs, false, CASE WHEN insert_members.needs > 0 THEN 'waiting' ELSE 'pending' END
          FROM given ORDER BY n
    )
    SELECT coalesce(array_agg(id ORDER BY n), '{}') INTO ids FROM given;
    RETURN ids;
END
$$;

-- What runs when a batch has ended so.
CREATE FUNCTION {schema}.add_continuations(b {schema}.batches, sent jsonb, wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF jsonb_typeof(sent) = 'object' THEN
        sent := jsonb_build_array(sent);
    END IF;
    INSERT INTO {schema}.dependencies (needs, waiting, condition)
    SELECT b.batch_id, id, wanted
      FROM unnest({schema}.insert_members(sent, NULL, 'batch', b.id, 1, b.tenant, b.correlation_id,
                                          b.batch_id, b.traceparent)) AS id;
END
$$;

-- Open a batch: add_to_batch fills it, over as many transactions as wanted; close_batch lets it end.
-- then_send, otherwise_send, finally_send: a command, or an array of them, as for send_commands.
CREATE FUNCTION {schema}.open_batch(
    name text, then_send jsonb DEFAULT NULL, otherwise_send jsonb DEFAULT NULL, finally_send jsonb DEFAULT NULL,
    expires_in interval DEFAULT '1 day', tenant text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, batch_id uuid DEFAULT NULL,
    OUT id bigint, OUT new_batch_id uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    b {schema}.batches;
BEGIN
    IF expires_in <= interval '0' THEN
        RAISE EXCEPTION 'batch %: expires_in is %, and must be positive', quote_literal(name), expires_in
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    new_batch_id := coalesce(open_batch.batch_id, {schema}.new_uuid());
    INSERT INTO {schema}.batches (batch_id, name, tenant, awaited, correlation_id, causation_id, traceparent, expires_at)
    VALUES (new_batch_id, open_batch.name, open_batch.tenant,
            coalesce(then_send, otherwise_send, finally_send) IS NOT NULL,
            coalesce(open_batch.correlation_id, new_batch_id::text), open_batch.causation_id,
            open_batch.traceparent, clock_timestamp() + expires_in)
    RETURNING * INTO b;
    id := b.id;
    PERFORM {schema}.add_continuations(b, then_send, 'succeeded') WHERE then_send IS NOT NULL;
    PERFORM {schema}.add_continuations(b, otherwise_send, 'failed') WHERE otherwise_send IS NOT NULL;
    PERFORM {schema}.add_continuations(b, finally_send, 'finished') WHERE finally_send IS NOT NULL;
END
$$;

-- Add commands (as for send_commands) to an open batch; returns how many.
CREATE FUNCTION {schema}.add_to_batch(batch uuid, commands jsonb) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b     {schema}.batches := {schema}.hold_open_batch(batch);
    added integer;
BEGIN
    added := cardinality({schema}.insert_members(
        commands, b.id, 'api', NULL, (b.status = 'waiting')::integer, b.tenant, b.correlation_id,
        b.batch_id, b.traceparent));
    INSERT INTO {schema}.batch_progress (batch_id, size) VALUES (b.id, added);
    RETURN added;
END
$$;

-- A whole batch at once.
CREATE FUNCTION {schema}.send_batch(
    name text, commands jsonb, then_send jsonb DEFAULT NULL, otherwise_send jsonb DEFAULT NULL,
    finally_send jsonb DEFAULT NULL, tenant text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, batch_id uuid DEFAULT NULL,
    OUT id bigint, OUT new_batch_id uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    SELECT o.id, o.new_batch_id INTO send_batch.id, send_batch.new_batch_id
      FROM {schema}.open_batch(send_batch.name, then_send, otherwise_send, finally_send, '1 day',
               send_batch.tenant, send_batch.correlation_id, send_batch.causation_id,
               send_batch.traceparent, send_batch.batch_id) AS o;
    PERFORM {schema}.add_to_batch(new_batch_id, commands);
    PERFORM {schema}.close_batch(new_batch_id);
END
$$;

-- The edges of a graph of steps, as the caller wrote them.
CREATE FUNCTION {schema}.workflow_edges(steps jsonb)
    RETURNS TABLE (place bigint, step text, needs text, condition text)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.n, s.value ->> 'name',
           CASE jsonb_typeof(a.value) WHEN 'object' THEN a.value ->> 'step' ELSE a.value #>> '{}' END,
           CASE jsonb_typeof(a.value) WHEN 'object' THEN coalesce(a.value ->> 'when', 'succeeded') ELSE 'succeeded' END
      FROM jsonb_array_elements(steps) WITH ORDINALITY AS s(value, n)
     CROSS JOIN LATERAL jsonb_array_elements(
           CASE jsonb_typeof(s.value -> 'after') WHEN 'array' THEN s.value -> 'after'
                ELSE jsonb_build_array(s.value -> 'after') END) AS a(value)
     WHERE s.value ? 'after'
$$;

-- A workflow: steps are commands with a name and, in "after", what they wait for: a step's name, or
-- {"step": …, "when": "succeeded" | "failed" | "finished"}, or an array of these. A step may only wait
-- for steps listed before it, so that there can be no cycle. Joins of 10,000 steps, of which the planner
-- expects 100, would be loops in loops.
CREATE FUNCTION {schema}.send_workflow(
    name text, steps jsonb, then_send jsonb DEFAULT NULL, otherwise_send jsonb DEFAULT NULL,
    finally_send jsonb DEFAULT NULL, tenant text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL, batch_id uuid DEFAULT NULL,
    OUT id bigint, OUT new_batch_id uuid
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_nestloop = off SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
    b     {schema}.batches;
    wrong record;
    ids   uuid[];
BEGIN
    SELECT s.value ->> 'name' AS step, count(*) AS times INTO wrong
      FROM jsonb_array_elements(steps) AS s(value)
     GROUP BY 1 HAVING count(*) > 1 OR coalesce(s.value ->> 'name', '') = '' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'workflow %: % steps have the name %', quote_literal(send_workflow.name), wrong.times,
            coalesce(quote_literal(wrong.step), 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give each step a name of its own.';
    END IF;
    SELECT e.step, e.needs, g.n IS NULL AS unknown INTO wrong
      FROM {schema}.workflow_edges(steps) AS e
      LEFT JOIN jsonb_array_elements(steps) WITH ORDINALITY AS g(value, n) ON g.value ->> 'name' = e.needs
     WHERE g.n IS NULL OR g.n >= e.place LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'workflow %: step % waits for %, which is % ', quote_literal(send_workflow.name),
            quote_literal(wrong.step), coalesce(quote_literal(wrong.needs), 'NULL'),
            CASE WHEN wrong.unknown THEN 'no step of it' ELSE 'not listed before it: a cycle, or the wrong order' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'List each step after those that it waits for.';
    END IF;
    SELECT e.step, e.needs, string_agg(DISTINCT e.condition, ' and ') AS conditions INTO wrong
      FROM {schema}.workflow_edges(steps) AS e GROUP BY 1, 2
    HAVING bool_or(e.condition NOT IN ('succeeded', 'failed', 'finished'))
        OR count(DISTINCT e.condition) FILTER (WHERE e.condition <> 'finished') > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'workflow %: step % waits for % to have %', quote_literal(send_workflow.name),
            quote_literal(wrong.step), quote_literal(wrong.needs), wrong.conditions
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Say one of succeeded, failed and finished.';
    END IF;
    SELECT o.id, o.new_batch_id INTO send_workflow.id, send_workflow.new_batch_id
      FROM {schema}.open_batch(send_workflow.name, then_send, otherwise_send, finally_send, '1 day',
               send_workflow.tenant, send_workflow.correlation_id, send_workflow.causation_id,
               send_workflow.traceparent, send_workflow.batch_id) AS o;
    UPDATE {schema}.batches AS w SET kind = 'workflow', size = jsonb_array_length(steps)
     WHERE w.id = send_workflow.id RETURNING * INTO b;
    ids := {schema}.insert_members(
        (SELECT coalesce(jsonb_agg(s.value - 'name' - 'after' ORDER BY s.n), '[]')
           FROM jsonb_array_elements(steps) WITH ORDINALITY AS s(value, n)),
        b.id, 'api', NULL, 0, b.tenant, b.correlation_id, b.batch_id, b.traceparent);
    INSERT INTO {schema}.steps (batch_id, name, member)
    SELECT b.id, s.value ->> 'name', ids[s.n] FROM jsonb_array_elements(steps) WITH ORDINALITY AS s(value, n);
    INSERT INTO {schema}.dependencies (needs, waiting, condition)
    SELECT DISTINCT before.member, after.member, e.condition
      FROM {schema}.workflow_edges(steps) AS e
      JOIN {schema}.steps AS after ON after.batch_id = b.id AND after.name = e.step
      JOIN {schema}.steps AS before ON before.batch_id = b.id AND before.name = e.needs;
    -- Only this transaction sees them yet.
    UPDATE {schema}.commands AS c
       SET needs = given.needs, awaited = given.awaited,
           status = CASE WHEN given.needs > 0 THEN 'waiting' ELSE c.status END
      FROM (SELECT edge.id, sum(edge.needs) AS needs, bool_or(edge.awaited) AS awaited
              FROM {schema}.dependencies AS d
             CROSS JOIN LATERAL (VALUES (d.waiting, 1, false), (d.needs, 0, true)) AS edge(id, needs, awaited)
             WHERE d.waiting = ANY (ids) GROUP BY edge.id) AS given
     WHERE c.command_id = given.id;
    PERFORM {schema}.close_batch(new_batch_id);
END
$$;

-- How a command or a batch ended: null as long as it has not, and nothing when there is none. Marks it
-- as awaited, which holds it against its settlement until this transaction ends. A dead letter that was
-- replayed as a new row is that row: needs is its uuid then.
CREATE FUNCTION {schema}.await_end(INOUT needs uuid, OUT known boolean, OUT outcome text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    c         record;
    successor uuid;
BEGIN
    known := true;
    LOOP
        UPDATE {schema}.commands SET awaited = true WHERE command_id = await_end.needs RETURNING status INTO c;
        IF FOUND THEN
            outcome := CASE c.status WHEN 'failed' THEN 'failed' END;
            RETURN;
        END IF;
        UPDATE {schema}.batches SET awaited = true WHERE batch_id = await_end.needs
        RETURNING status, cancelled, ending INTO c;
        IF FOUND THEN
            outcome := CASE WHEN c.status IN ('succeeded', 'failed') THEN c.status
                            WHEN c.status = 'cancelled' AND c.cancelled = 0 AND c.ending IS DISTINCT FROM 'cancelled'
                            THEN 'skipped' WHEN c.status = 'cancelled' THEN 'cancelled' END;
            RETURN;
        END IF;
        -- A new statement: what settled while the first one waited for it is seen here.
        SELECT h.id, h.status, h.cancel_requested INTO c FROM {schema}.commands_history h
         WHERE h.command_id = await_end.needs ORDER BY h.finished_at DESC LIMIT 1;
        known := FOUND;
        EXIT WHEN c.status IS DISTINCT FROM 'failed';
        SELECT s.uuid INTO successor
          FROM {schema}.replays r
         CROSS JOIN LATERAL (
             SELECT n.command_id AS uuid FROM {schema}.commands n WHERE n.id = r.new_id
             UNION ALL
             SELECT n.command_id FROM {schema}.commands_history n WHERE n.id = r.new_id) s
         WHERE r.kind = 'command' AND r.old_id = c.id AND r.new_id <> c.id LIMIT 1;
        EXIT WHEN NOT FOUND;
        needs := successor;
    END LOOP;
    outcome := CASE WHEN c.status = 'cancelled' AND NOT c.cancel_requested THEN 'skipped'
                    WHEN c.status IN ('dismissed', 'failed') THEN 'cancelled' ELSE c.status END;
END
$$;

-- Send commands (one, or an array, as for send_commands) that wait for the end of a command or a batch,
-- which may have come already. Returns their ids.
CREATE FUNCTION {schema}.send_after(
    needs uuid, commands jsonb, condition text DEFAULT 'succeeded', tenant text DEFAULT NULL,
    correlation_id text DEFAULT NULL, causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended   record;
    verdict text;
    ids     uuid[];
BEGIN
    IF condition NOT IN ('succeeded', 'failed', 'finished') THEN
        RAISE EXCEPTION 'condition % is none of succeeded, failed, finished', quote_literal(condition)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    ended := {schema}.await_end(needs);
    IF NOT ended.known THEN
        RAISE EXCEPTION 'there is no command or batch %', needs USING ERRCODE = 'IB004',
            HINT = 'Send what is to be waited for first, in the same transaction or an earlier one.';
    END IF;
    verdict := CASE WHEN ended.outcome IS NOT NULL THEN {schema}.edge_verdict(condition, ended.outcome) END;
    IF verdict IN ('cancelled', 'skipped') THEN
        RAISE EXCEPTION '% has ended (%): what waits for «%» would never run', needs, ended.outcome, condition
            USING ERRCODE = 'IB005';
    END IF;
    IF jsonb_typeof(commands) = 'object' THEN
        commands := jsonb_build_array(commands);
    END IF;
    ids := {schema}.insert_members(commands, NULL, 'api', NULL, (verdict IS NULL)::integer, tenant,
                                   correlation_id, coalesce(causation_id, needs), traceparent);
    IF verdict IS NULL THEN
        INSERT INTO {schema}.dependencies (needs, waiting, condition)
        SELECT ended.needs, id, send_after.condition FROM unnest(ids) AS id;
    END IF;
    RETURN QUERY SELECT unnest(ids);
END
$$;

-- --------------------------------------------------------------------------------- privileges

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_producer') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.send_batch, {schema}.open_batch, {schema}.add_to_batch,
              {schema}.close_batch, {schema}.send_workflow, {schema}.send_after TO {schema}_producer;
    END IF;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.batches, {schema}.batch_progress,
              {schema}.dependencies, {schema}.steps, {schema}.replays TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.fold_batch, {schema}.send_batch, {schema}.open_batch,
              {schema}.add_to_batch, {schema}.close_batch, {schema}.hold_open_batch,
              {schema}.send_workflow, {schema}.send_after, {schema}.release, {schema}.wake_commands
           TO {schema}_worker;
    END IF;
END
$do$;
