-- Plans that hold whatever the statistics say (ADR 16): one way to each row, and no other that could cost as
-- little in a table that the planner believes to be empty.
-- oldest code: 4

-- The topic has a collation of its own here, so that what asks for the events of a topic is never answered by
-- walking over this index from end to end. ON CONFLICT (event_id, topic) finds it all the same.
DROP INDEX {schema}.events_event_id;
CREATE UNIQUE INDEX events_event_id ON {schema}.events (event_id, topic COLLATE "C");

-- With its time: since when a batch is unfolded is its first entry, so a look at all batches reads one of each.
DROP INDEX {schema}.batch_progress_batch;
CREATE INDEX batch_progress_batch ON {schema}.batch_progress (batch_id, at);

-- An edge is looked for by either end, each by an index that does not name the other end as such.
ALTER TABLE {schema}.dependencies DROP CONSTRAINT dependencies_pkey;
CREATE UNIQUE INDEX dependencies_needs ON {schema}.dependencies (needs, condition, (waiting::text));
ALTER TABLE {schema}.dependencies REPLICA IDENTITY FULL;  -- for who publishes all tables

-- A batch is looked for by its number, never by walking over this one.
DROP INDEX {schema}.batches_status;
CREATE INDEX batches_status ON {schema}.batches ((status || ''));

-- Of two indexes that have the same rows, the flatter one wins in a table that is believed to be empty, whatever is
-- asked. So one of each two has a spelling of its own in its predicate, which only its own statements say: what is
-- looked for by type, heads and what stands still among events, dead letters by their fingerprint or parent.
-- (Code before this migration finds those rows by the other index of the two, with more reading.)
DROP INDEX {schema}.commands_arrived, {schema}.commands_again, {schema}.commands_dead_keys,
    {schema}.commands_failures, {schema}.commands_failed_children, {schema}.commands_failed_members,
    {schema}.events_heads, {schema}.events_blocking, {schema}.events_failures;
CREATE INDEX commands_arrived ON {schema}.commands (queue, type, run_at, id)
    WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL;
CREATE INDEX commands_again ON {schema}.commands (queue, type, run_at, id)
    WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0;
CREATE INDEX commands_dead_keys ON {schema}.commands (queue, line_at, id)
    WHERE status LIKE 'failed' AND (line_at IS NULL)::integer = 0;
CREATE INDEX commands_failures ON {schema}.commands (fingerprint, type, id) WHERE status || '' = 'failed';
CREATE INDEX commands_failed_children ON {schema}.commands (causation_id)
    WHERE status LIKE 'failed' AND causation_id IS NOT NULL AND batch_id IS NULL;
CREATE INDEX commands_failed_members ON {schema}.commands (batch_id)
    WHERE status LIKE 'failed' AND batch_id IS NOT NULL;
CREATE INDEX events_heads ON {schema}.events (topic, type, run_at, id)
    WHERE head::integer = 1 AND status LIKE 'waiting';
CREATE INDEX events_blocking ON {schema}.events (topic, updated_at, id)
    WHERE head::integer = 1 AND status LIKE 'failed';
CREATE INDEX events_failures ON {schema}.events (fingerprint, type, id) WHERE status || '' = 'failed';

-- By number; the kind is looked at, not looked for.
DROP INDEX {schema}.replays_old, {schema}.replays_new;
CREATE INDEX replays_old ON {schema}.replays (old_id, kind COLLATE "C");
CREATE INDEX replays_new ON {schema}.replays (new_id, kind COLLATE "C");

-- What runs in sessions of producers and handlers, whose planner is left alone, brings its settings along.
ALTER FUNCTION {schema}.await_end SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.fold_batch SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.judge_event SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.unwritten_event SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.succeed_head SET enable_seqscan = off SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.remember SET enable_seqscan = off SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.kept_command SET enable_seqscan = off SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.cancel_unique SET enable_seqscan = off SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.unsettled_command SET enable_seqscan = off SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.hold_open_batch SET enable_seqscan = off SET enable_bitmapscan = off;
ALTER FUNCTION {schema}.close_batch SET enable_seqscan = off SET enable_bitmapscan = off;

-- ------------------------------------------------------------------------- functions, written anew
-- «x.id BETWEEN o.id AND o.id» is «x.id = o.id» for which the planner has no merge in mind, and so no reason to
-- read x in order; «ARRAY(SELECT …)» and «OFFSET 0» are looked up, never joined; «status LIKE 's'» opens no
-- partial index.

-- As 0005 has it, but for the form of its statements.
CREATE OR REPLACE FUNCTION {schema}.release(ended uuid[], outcomes text[])
    RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
          WHERE c.command_id = ANY (ARRAY(SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = ANY (ended)))
          ORDER BY c.command_id FOR NO KEY UPDATE;
        PERFORM FROM {schema}.batches b
          WHERE b.id = ANY (ARRAY(
                    SELECT w.id FROM {schema}.batches w
                     WHERE w.batch_id = ANY (ARRAY(SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = ANY (ended)))))
          ORDER BY b.id FOR NO KEY UPDATE;
        WITH gone AS (
            DELETE FROM {schema}.dependencies d USING unnest(ended, outcomes) AS e(id, outcome)
             WHERE d.needs BETWEEN e.id AND e.id AND {schema}.edge_verdict(d.condition, e.outcome) IS NOT NULL
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
              FROM unnest(freed, takes) AS f(id, takes) WHERE c.command_id BETWEEN f.id AND f.id;
            GET DIAGNOSTICS found_ = ROW_COUNT;
            wake := wake OR found_ > 0;
            IF found_ < cardinality(freed) THEN  -- some are batches: their members follow, page by page
                WITH begun AS (
                    UPDATE {schema}.batches b
                       SET needs = b.needs - f.takes,
                           starting = b.needs = f.takes,
                           status = CASE WHEN b.needs = f.takes THEN 'pending' ELSE b.status END,
                           updated_at = clock_timestamp()
                      FROM unnest(freed, takes) AS f(id, takes) WHERE b.batch_id BETWEEN f.id AND f.id
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
                 WHERE b.batch_id BETWEEN l.id AND l.id AND b.ending IS NULL
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

CREATE OR REPLACE FUNCTION {schema}.end_waiting(ids uuid[], ends text[])
    RETURNS TABLE(command_id uuid, outcome text, awaited boolean) LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH gone AS (
        DELETE FROM {schema}.commands c USING unnest(ids, ends) AS l(id, outcome)
         WHERE c.command_id BETWEEN l.id AND l.id AND c.status LIKE 'waiting'
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

CREATE OR REPLACE FUNCTION {schema}.start_members(batch bigint, page integer)
    RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
             WHERE batch_id BETWEEN batch AND batch AND status <> 'running'
               AND status LIKE 'waiting' AND needs > 0
               AND NOT EXISTS (SELECT FROM {schema}.dependencies d WHERE d.waiting = command_id OFFSET 0)
             ORDER BY batch_id, id LIMIT page FOR UPDATE) AS picked
     WHERE c.id BETWEEN picked.id AND picked.id;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        PERFORM {schema}.wake_commands();
    END IF;
    RETURN moved;
END
$$;

CREATE OR REPLACE FUNCTION {schema}.end_members(batch bigint, ends text, page integer)
    RETURNS bigint LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
                 WHERE batch_id BETWEEN batch AND batch AND status IN ('pending', 'waiting')
                 ORDER BY batch_id, id LIMIT page FOR UPDATE) AS picked
         WHERE c.id BETWEEN picked.id AND picked.id
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

CREATE OR REPLACE FUNCTION {schema}.ask_members(batch bigint)
    RETURNS void LANGUAGE sql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    UPDATE {schema}.commands c SET cancel_requested = true, updated_at = clock_timestamp()
      FROM (SELECT id FROM {schema}.commands
             WHERE status = 'running' AND NOT cancel_requested AND batch_id = batch
               AND worker_id = ANY (ARRAY(SELECT w.id FROM {schema}.workers w WHERE w.state IN ('running', 'draining')))
             ORDER BY id FOR NO KEY UPDATE) AS picked
     WHERE c.id BETWEEN picked.id AND picked.id
$$;

-- As 0006 has it, but for the form of its statements.
CREATE OR REPLACE FUNCTION {schema}.make_way(types text[], keys text[], on_conflicts text[])
    RETURNS boolean[] LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    wrong record;
    stays boolean[];
BEGIN
    SELECT c.mode INTO wrong FROM unnest(on_conflicts) AS c(mode)
     WHERE c.mode NOT IN ('keep', 'replace', 'reject') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'on_conflict is %', quote_literal(wrong.mode)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Say keep, replace or reject.';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.unique'), hash)
       FROM (SELECT DISTINCT hashtext(g.type || ' ' || g.key) AS hash
               FROM unnest(types, keys) AS g(type, key) WHERE g.key IS NOT NULL ORDER BY 1) AS locks;
    SELECT g.type, g.key, c.id, c.command_id INTO wrong
      FROM unnest(types, keys, on_conflicts) AS g(type, key, mode)
     CROSS JOIN LATERAL (
         SELECT u.id, u.command_id FROM {schema}.commands u
          WHERE u.type = g.type AND u.unique_key = g.key AND u.status <> 'failed' LIMIT 1) c
     WHERE g.mode = 'reject' LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a command % with the unique key % is unsettled: %', quote_ident(wrong.type),
            quote_literal(wrong.key), wrong.command_id
            USING ERRCODE = 'IB006', HINT = 'on_conflict = keep leaves it and writes nothing, replace cancels it.';
    END IF;
    PERFORM {schema}.cancel_unique(g.type, g.key)
       FROM (SELECT DISTINCT type, key FROM unnest(types, keys, on_conflicts) AS g(type, key, mode)
              WHERE mode = 'replace' AND key IS NOT NULL) AS g;
    SELECT array_agg(g.key IS NOT NULL AND (
               EXISTS (SELECT FROM {schema}.commands c
                        WHERE c.type = g.type AND c.unique_key = g.key AND c.status <> 'failed' OFFSET 0)
               OR g.last_n > g.n) ORDER BY g.n)
      INTO stays
      FROM (SELECT u.*, max(u.n) FILTER (WHERE u.mode = 'replace') OVER (PARTITION BY u.type, u.key) AS last_n
              FROM unnest(types, keys, on_conflicts) WITH ORDINALITY AS u(type, key, mode, n)) AS g;
    RETURN stays;
END
$$;

CREATE OR REPLACE FUNCTION {schema}.still_running(of_queue text, claimed bigint[], counted_at timestamptz, enough integer)
    RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF counted_at IS NULL OR counted_at NOT BETWEEN clock_timestamp() - interval '10 seconds' AND clock_timestamp() THEN
        RETURN ARRAY(SELECT c.id FROM {schema}.commands c WHERE c.status = 'running' AND c.queue = of_queue);
    ELSIF cardinality(claimed) <= enough THEN
        RETURN claimed;
    END IF;
    RETURN ARRAY(SELECT c.id FROM unnest(claimed) AS known(id)
                   JOIN {schema}.commands c ON c.id BETWEEN known.id AND known.id
                                           AND c.worker_id IS NOT NULL AND c.queue = of_queue);
END
$$;

-- As 0016 has it, but for the form of its last UPDATE.
CREATE OR REPLACE FUNCTION {schema}.claim_limited(
    worker uuid, of_queue text, most integer, total integer, rate integer, period double precision,
    types text[], lane_types text[], lane_priorities smallint[], after_ats double precision[],
    after_ids bigint[], lanes_first boolean, keys text[], share integer, at_once integer,
    blocking boolean, suspect boolean, following double precision DEFAULT NULL
) RETURNS TABLE (
    id bigint, command_id uuid, queue text, type text, schema_version smallint, payload jsonb,
    priority smallint, tenant text, entity_type text, entity_id text, attempts smallint,
    max_attempts smallint, crashes smallint, fence bigint, run_at double precision, deadline timestamptz,
    late boolean, cancel_requested boolean, origin_kind text, origin_id bigint, replay_of bigint,
    batch_id bigint, awaited boolean, ordering_key text, correlation_id text, causation_id uuid, traceparent text,
    body_id bigint, body_at timestamptz, body_bytes integer, waited double precision,
    age double precision, lane integer, held_back text, again double precision, passed text[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held   record;
    room   integer := most;
    ids    bigint[] := '{}';
    lanes  integer[] := '{}';
    more   record;
    taken  integer;
    others text[];
    -- Class of the locks on buckets of keys.
    line   integer := hashtext('{schema}.line');
BEGIN
    PERFORM FROM {schema}.workers WHERE id = worker AND state = 'running' FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- (No row is looked for without such a limit; held.at is set all the same.)
    SELECT l.*, clock_timestamp() AS at INTO held FROM {schema}.limits l
     WHERE (total IS NOT NULL OR rate IS NOT NULL) AND l.name = of_queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND (total IS NOT NULL OR rate IS NOT NULL) THEN
        -- Looked at first: ON CONFLICT waits for a transaction that is changing the row.
        IF NOT EXISTS (SELECT FROM {schema}.limits l WHERE l.name = of_queue) THEN
            INSERT INTO {schema}.limits (name) VALUES (of_queue) ON CONFLICT DO NOTHING;
        END IF;
        held_back := 'busy';
        again := 0.005;
        RETURN NEXT;
        RETURN;
    END IF;
    held.at := clock_timestamp();
    IF total IS NOT NULL THEN
        held.running := {schema}.still_running(of_queue, held.running, held.counted_at, total - room);
        held.counted_at := CASE WHEN held.counted_at BETWEEN held.at - interval '10 seconds' AND held.at
                                THEN held.counted_at ELSE held.at END;
        room := least(room, total - cardinality(held.running));
        IF room <= 0 THEN
            held_back := 'full';
        END IF;
    END IF;
    IF rate IS NOT NULL AND room > 0 THEN
        SELECT array_agg(least(c.at, held.at) ORDER BY n) AS ats, array_agg(c.rows ORDER BY n) AS rows,
               coalesce(sum(c.rows), 0) AS sum,
               extract(epoch FROM min(c.at) - held.at)::double precision + period AS next
          INTO more FROM unnest(held.claimed_at, held.claimed) WITH ORDINALITY AS c(at, rows, n)
         WHERE c.at > held.at - make_interval(secs => period);
        held.claimed_at := coalesce(more.ats, '{}');
        held.claimed := coalesce(more.rows, '{}');
        room := least(room, rate - more.sum);
        IF room <= 0 THEN
            held_back := 'rate';
            again := least(more.next, period);
        END IF;
    END IF;
    IF room <= 0 THEN
        UPDATE {schema}.limits SET running = held.running, counted_at = held.counted_at
         WHERE name = of_queue AND counted_at IS DISTINCT FROM held.counted_at;
        RETURN NEXT;
        RETURN;
    END IF;
    IF cardinality(keys) > 0 THEN
        SELECT coalesce(array_agg(k.key ORDER BY k.n) FILTER (WHERE k.mine), '{}') AS mine,
               array_agg(k.key ORDER BY k.n) FILTER (WHERE NOT k.mine) AS others
          INTO more
          FROM (SELECT asked.key, asked.n,
                       pg_try_advisory_xact_lock(line, hashtext(of_queue || '/' || asked.key) & 1023) AS mine
                  FROM unnest(keys) WITH ORDINALITY AS asked(key, n)
                OFFSET 0) AS k;  -- each lock is tried once
        keys := more.mine;
        others := more.others;
    END IF;
    IF suspect THEN
        ids := {schema}.pick_suspect(of_queue, types, at_once, blocking);
        SELECT c.ordering_key AS key INTO more FROM {schema}.commands c WHERE c.id = ids[1];
        IF more.key IS NOT NULL THEN
            -- It was picked before its line was held: it counts if it is picked again.
            IF pg_try_advisory_xact_lock(line, hashtext(of_queue || '/' || more.key) & 1023)
               AND ids = {schema}.pick_suspect(of_queue, types, at_once, blocking) THEN
                keys := array_remove(keys, more.key);  -- it does not run yet: its line would not count it
            ELSE
                ids := '{}';
                others := others || more.key;
            END IF;
        END IF;
        lanes := array_fill(0, ARRAY[cardinality(ids)]);
    END IF;
    FOR step IN 1..2 LOOP
        CONTINUE WHEN cardinality(ids) >= room;
        IF lanes_first = (step = 1) THEN
            CONTINUE WHEN cardinality(lane_types) = 0;
            WITH picked AS MATERIALIZED (
                SELECT due.id, lane.lane
                  FROM unnest(lane_types, lane_priorities, after_ats, after_ids)
                       WITH ORDINALITY AS lane(type, priority, after_at, after_id, lane)
                 CROSS JOIN LATERAL (
                     SELECT c.id FROM {schema}.commands c
                      WHERE c.status = 'pending' AND c.crashes = 0
                        AND c.queue = of_queue AND c.type = lane.type AND c.priority = lane.priority
                        AND c.run_at <= held.at
                        AND (c.run_at, c.id)
                            > (least(to_timestamp(lane.after_at), held.at - interval '100 ms'), lane.after_id)
                      ORDER BY c.run_at, c.id
                      LIMIT room - cardinality(ids)
                        FOR UPDATE SKIP LOCKED) due
                 LIMIT room - cardinality(ids))
            SELECT array_agg(p.id) AS ids, array_agg(p.lane) AS lanes INTO more FROM picked p;
            ids := ids || more.ids;
            lanes := lanes || more.lanes;
        ELSIF cardinality(keys) > 0 THEN
            ids := ids || {schema}.pick_lines(of_queue, types, keys, share, at_once, blocking,
                                              room - cardinality(ids), held.at, worker, to_timestamp(following));
            lanes := lanes || array_fill(0, ARRAY[cardinality(ids) - cardinality(lanes)]);
        END IF;
    END LOOP;
    IF cardinality(ids) = 0 THEN
        IF others IS NOT NULL THEN
            held_back := 'busy';
            again := 0.005;
            passed := others;
            RETURN NEXT;
        END IF;
        RETURN;
    END IF;
    held.at := clock_timestamp();
    RETURN QUERY
    UPDATE {schema}.commands c
       -- (Told apart by their places: the rows of a line start in its order, though they are changed in another.)
       SET status = 'running', worker_id = worker, fence = c.fence + 1,
           started_at = held.at + found.place * interval '1 microsecond',
           updated_at = clock_timestamp(),
           line_at = CASE WHEN c.ordering_key IS NOT NULL THEN coalesce(c.line_at, c.run_at) END
      FROM (SELECT f.* FROM unnest(ids, lanes) WITH ORDINALITY AS f(id, lane, place) ORDER BY f.id) found
     WHERE c.id BETWEEN found.id AND found.id
    RETURNING c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority, c.tenant,
              c.entity_type, c.entity_id, c.attempts, c.max_attempts, c.crashes, c.fence,
              date_part('epoch', c.run_at), c.deadline, c.deadline < clock_timestamp(),
              c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited, c.ordering_key,
              c.correlation_id, c.causation_id, c.traceparent, c.body_id, c.body_at, c.body_bytes,
              date_part('epoch', clock_timestamp() - c.run_at),
              date_part('epoch', clock_timestamp() - c.created_at), found.lane, NULL::text, NULL::double precision,
              CASE WHEN found.place = 1 THEN others END;
    IF total IS NULL AND rate IS NULL THEN
        RETURN;
    END IF;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF rate IS NOT NULL THEN
        -- By the time of its last start; claims that are close together count as one, a later one, so
        -- that there never are more than about 100.
        held.at := clock_timestamp();
        IF held.claimed_at[cardinality(held.claimed_at)] > held.at - make_interval(secs => period / 100) THEN
            held.claimed_at[cardinality(held.claimed_at)] := held.at;
            held.claimed[cardinality(held.claimed)] := held.claimed[cardinality(held.claimed)] + taken;
        ELSE
            held.claimed_at := held.claimed_at || held.at;
            held.claimed := held.claimed || taken;
        END IF;
    END IF;
    UPDATE {schema}.limits
       SET running = CASE WHEN total IS NULL THEN '{}' ELSE held.running || ids END,
           counted_at = held.counted_at, claimed_at = held.claimed_at, claimed = held.claimed
     WHERE name = of_queue;
END
$$;

-- As 0012 has it, but for the form of its statement.
CREATE OR REPLACE FUNCTION {schema}.purge_audit(age interval, most integer)
    RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    removed bigint;
BEGIN
    DELETE FROM {schema}.audit WHERE id = ANY (ARRAY(
        SELECT id FROM {schema}.audit WHERE at < now() - greatest(age, interval '30 days') ORDER BY at LIMIT most));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- As 0006 has it, but for the spelling of what runs again (commands_again).
CREATE OR REPLACE FUNCTION {schema}.pick_suspect(of_queue text, types text[], at_once integer, blocking boolean)
    RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint[];
BEGIN
    found := ARRAY(
        SELECT c.id FROM unnest(types) AS mine(type)
         CROSS JOIN LATERAL (
             SELECT c.id FROM {schema}.commands c
              WHERE c.queue = of_queue AND c.type = mine.type AND c.status LIKE 'waiting'
                AND (c.line_at IS NULL)::integer = 0 AND c.crashes > 0 AND c.run_at <= clock_timestamp()
                AND (SELECT count(*) FROM (
                        SELECT FROM {schema}.commands e
                         WHERE e.queue = of_queue AND e.ordering_key = c.ordering_key AND e.line_at IS NOT NULL
                           AND e.status >= CASE WHEN blocking AND at_once = 1 THEN 'failed' ELSE 'running' END
                           AND (e.status, e.line_at, e.id) < ('waiting', c.line_at, c.id)
                         LIMIT at_once) AS ahead) < at_once
              ORDER BY c.run_at, c.id LIMIT 1
                FOR UPDATE SKIP LOCKED) c
         LIMIT 1);
    IF cardinality(found) = 0 THEN
        found := ARRAY(
            SELECT c.id FROM {schema}.commands c
             WHERE c.status = 'pending' AND c.crashes > 0 AND c.run_at <= clock_timestamp()
               AND c.queue = of_queue AND c.type = ANY (types)
             ORDER BY c.run_at, c.id LIMIT 1
               FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN found;
END
$$;

-- As 0015 has it, but: who runs is counted among who holds the key, not among all that run.
CREATE OR REPLACE FUNCTION {schema}.pick_lines(of_queue text, types text[], keys text[], share integer, at_once integer, blocking boolean, room integer, at timestamptz, own uuid, until timestamptz)
    RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    front  record;
    locked bigint[];
    kept   bigint[] := '{}';
    ended  bigint;
BEGIN
    IF at_once = 1 THEN
        SELECT array_agg(r.id ORDER BY r.n, r.place, r.id) AS ids,
               array_agg(r.n ORDER BY r.n, r.place, r.id) AS lines,
               coalesce(bool_and(r.type = ANY (types)), true) AS mine,
               array_agg(r.type ORDER BY r.n, r.place, r.id) AS types
          INTO front
          FROM (SELECT k.n, r.* FROM unnest(keys) WITH ORDINALITY AS k(key, n)
                  LEFT JOIN LATERAL (
                      SELECT c.id, c.status, c.type, c.run_at, c.line_at, c.crashes FROM {schema}.commands c
                       WHERE c.queue = of_queue AND c.ordering_key = k.key AND c.line_at IS NOT NULL
                         AND c.status >= CASE WHEN blocking THEN 'failed' ELSE 'running' END
                         AND (until IS NULL OR c.worker_id IS DISTINCT FROM own OR c.started_at > until)
                       ORDER BY c.status, c.line_at, c.id LIMIT 1) holder ON true
                 CROSS JOIN LATERAL (
                      SELECT holder.id, holder.type, holder.line_at AS place
                       WHERE until IS NULL AND holder.status = 'waiting' AND holder.run_at <= at
                         AND holder.crashes = 0
                      UNION ALL
                      (SELECT c.id, c.type, c.run_at FROM {schema}.commands c
                        WHERE holder.id IS NULL AND c.queue = of_queue AND c.ordering_key = k.key
                          AND c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL AND c.run_at <= at
                        ORDER BY c.run_at, c.id LIMIT share)) r
                 LIMIT room) AS r(n, id, type, place);
    ELSE
        SELECT array_agg(r.id ORDER BY r.n, r.place, r.id) AS ids,
               array_agg(r.n ORDER BY r.n, r.place, r.id) AS lines,
               coalesce(bool_and(r.type = ANY (types)), true) AS mine,
               array_agg(r.type ORDER BY r.n, r.place, r.id) AS types
          INTO front
          FROM (SELECT k.n, r.* FROM unnest(keys) WITH ORDINALITY AS k(key, n)
                 CROSS JOIN LATERAL (
                      SELECT count(*)::integer AS rows FROM (
                          SELECT FROM {schema}.commands c
                           WHERE c.queue = of_queue AND c.ordering_key = k.key AND c.line_at IS NOT NULL
                             AND c.status BETWEEN 'running' AND 'running' LIMIT at_once) AS few) running
                 CROSS JOIN LATERAL (
                      SELECT w.* FROM (
                          (SELECT c.id, c.type, c.line_at AS place FROM {schema}.commands c
                            WHERE c.queue = of_queue AND c.ordering_key = k.key AND c.line_at IS NOT NULL
                              AND c.status = 'waiting' AND c.run_at <= at AND c.crashes = 0
                            ORDER BY c.line_at, c.id LIMIT share)
                          UNION ALL
                          (SELECT c.id, c.type, c.run_at FROM {schema}.commands c
                            WHERE c.queue = of_queue AND c.ordering_key = k.key
                              AND c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL AND c.run_at <= at
                            ORDER BY c.run_at, c.id LIMIT share)) AS w
                       LIMIT CASE WHEN running.rows = 0 THEN share ELSE least(share, at_once - running.rows) END) r
                 LIMIT room) AS r(n, id, type, place);
    END IF;
    IF front.ids IS NULL THEN
        RETURN '{}';
    END IF;
    locked := ARRAY(SELECT c.id FROM {schema}.commands c
                     WHERE c.id = ANY (front.ids) AND c.status = 'waiting' FOR UPDATE SKIP LOCKED);
    IF front.mine AND cardinality(locked) = cardinality(front.ids) THEN
        RETURN front.ids;
    END IF;
    FOR i IN 1..cardinality(front.ids) LOOP
        CONTINUE WHEN front.lines[i] = ended;
        IF front.types[i] = ANY (types) AND front.ids[i] = ANY (locked) THEN
            kept := kept || front.ids[i];
        ELSE
            ended := front.lines[i];
        END IF;
    END LOOP;
    RETURN kept;
END
$$;
