-- Ordering keys and unique keys of commands, limits of queues (design sections 5 and 7, ADR 11).
-- oldest code: 4
--
-- A command with an ordering key never is `pending`: it waits in the line of its key, outside the lanes
-- from which older workers claim. The order in a line is (run_at, id); what is not due holds nobody up.
-- What was claimed keeps its place, line_at, until it ends: it holds its key, while it runs, waits for
-- its retry, or is a dead letter. Only claim_limited takes keyed rows. It also claims from queues that
-- have a limit over all workers, so its first act is to lock the queue's row in `limits`; what it counts
-- and takes is seen by later statements, whose snapshots show all claims of that queue. So no two claims
-- of such a queue overlap, and no limit is overshot.

ALTER TABLE {schema}.commands ADD line_at timestamptz,
    ADD CHECK (octet_length(ordering_key) BETWEEN 1 AND 255) NOT VALID,
    ADD CHECK (octet_length(unique_key) BETWEEN 1 AND 255) NOT VALID;

CREATE INDEX commands_line ON {schema}.commands (queue, ordering_key, run_at, id)
    WHERE status = 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL;
-- The same rows by time: what has come since somebody looked, by type as the lanes are.
CREATE INDEX commands_arrived ON {schema}.commands (queue, type, run_at, id)
    WHERE status = 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL;
-- Who holds a key. In this order: failed, running, waiting.
CREATE INDEX commands_holding ON {schema}.commands (queue, ordering_key, status, line_at, id)
    WHERE line_at IS NOT NULL;
CREATE INDEX commands_again ON {schema}.commands (queue, type, run_at, id)
    WHERE status = 'waiting' AND line_at IS NOT NULL;
-- For operators: dead letters that may hold a key, and what waits for other rows.
CREATE INDEX commands_dead_keys ON {schema}.commands (queue, line_at, id) WHERE status = 'failed' AND line_at IS NOT NULL;
-- (>= 1, not > 0: what looks for the members of a batch must not be lured to it.)
CREATE INDEX commands_unmet ON {schema}.commands (queue, type) WHERE status = 'waiting' AND needs >= 1;

-- At most one unsettled command of a type has a unique key; a dead letter has ended, and holds none.
CREATE UNIQUE INDEX commands_unique_key ON {schema}.commands (type, unique_key)
    WHERE unique_key IS NOT NULL AND status <> 'failed';

CREATE TABLE {schema}.limits (
    queue      text PRIMARY KEY,
    running    bigint[] NOT NULL DEFAULT '{}',       -- what was claimed, the ended ones not taken off yet
    counted_at timestamptz,                          -- when `running` was last read from the table itself
    claimed_at timestamptz[] NOT NULL DEFAULT '{}',  -- the last claims, as far back as the rate looks
    claimed    integer[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);  -- a few rows, each updated by each claim

-- --------------------------------------------------------------------------------------- lines

CREATE FUNCTION {schema}.stand_in_line() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.status := 'waiting';
    IF TG_OP = 'INSERT' AND NEW.run_at < clock_timestamp() THEN
        NEW.run_at := clock_timestamp();  -- now() is when its transaction began: others came since
    END IF;
    RETURN NEW;
END
$$;

-- Named so that it fires after commands_transition, which judges the move that was meant.
CREATE TRIGGER commands_wait BEFORE INSERT OR UPDATE OF status ON {schema}.commands FOR EACH ROW
    WHEN (NEW.ordering_key IS NOT NULL AND NEW.status = 'pending')
    EXECUTE FUNCTION {schema}.stand_in_line();

DROP TRIGGER commands_transition ON {schema}.commands;
CREATE TRIGGER commands_transition BEFORE UPDATE OF status ON {schema}.commands FOR EACH ROW
    WHEN (NOT (OLD.status = NEW.status
            OR (OLD.status = 'pending' AND NEW.status IN ('running', 'waiting', 'failed'))
            OR (OLD.status = 'waiting' AND NEW.status IN ('pending', 'failed'))
            OR (OLD.status = 'running' AND NEW.status IN ('pending', 'failed'))
            OR (OLD.status = 'failed' AND NEW.status = 'pending')
            OR (OLD.ordering_key IS NOT NULL AND OLD.needs = 0
                AND (OLD.status, NEW.status) IN (('waiting', 'running'), ('running', 'waiting')))))
    EXECUTE FUNCTION {schema}.refuse_transition();

-- ------------------------------------------------------------------------------------- claims

-- Lease due commands of one queue, within its limits. Suspects (crashes > 0) one at a time, if wanted.
-- total: most that run over all workers; rate, period: most that are claimed in any so many seconds;
-- types: what this worker runs; lanes as in claim_commands.sql; keys: whose lines to ask, `share` rows of
-- each at most; at_once: how many of a key may run; blocking: whether a dead letter holds its key
-- (at_once = 1 only: with more there is no order to keep). Nothing is waited for.
-- Returns the rows in NO order, lane 0 for those of a line; or one row whose held_back says why there
-- are none: 'busy' (somebody else claims from this queue), 'full', 'rate', and `again` in seconds.
CREATE FUNCTION {schema}.claim_limited(
    worker uuid, of_queue text, most integer, total integer, rate integer, period double precision,
    types text[], lane_types text[], lane_priorities smallint[], after_ats double precision[],
    after_ids bigint[], lanes_first boolean, keys text[], share integer, at_once integer,
    blocking boolean, suspect boolean
) RETURNS TABLE (
    id bigint, command_id uuid, queue text, type text, schema_version smallint, payload jsonb,
    priority smallint, tenant text, entity_type text, entity_id text, attempts smallint,
    max_attempts smallint, crashes smallint, fence bigint, run_at double precision, deadline timestamptz,
    late boolean, cancel_requested boolean, origin_kind text, origin_id bigint, replay_of bigint,
    batch_id bigint, awaited boolean, ordering_key text, correlation_id text, causation_id uuid, traceparent text,
    body_id bigint, body_at timestamptz, body_bytes integer, waited double precision,
    age double precision, lane integer, held_back text, again double precision
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    held  record;
    room  integer := most;
    ids   bigint[] := '{}';
    lanes integer[] := '{}';
    more  record;
    taken integer;
BEGIN
    PERFORM FROM {schema}.workers WHERE id = worker AND state = 'running' FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT l.*, clock_timestamp() AS at INTO held FROM {schema}.limits l WHERE l.queue = of_queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- Looked at first: ON CONFLICT waits for a transaction that is changing the row.
        IF NOT EXISTS (SELECT FROM {schema}.limits l WHERE l.queue = of_queue) THEN
            INSERT INTO {schema}.limits (queue) VALUES (of_queue) ON CONFLICT DO NOTHING;
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
         WHERE queue = of_queue AND counted_at IS DISTINCT FROM held.counted_at;
        RETURN NEXT;
        RETURN;
    END IF;
    IF suspect THEN
        ids := {schema}.pick_suspect(of_queue, types, at_once, blocking);
        lanes := array_fill(0, ARRAY[cardinality(ids)]);
        -- It does not run yet, so its line would not count it.
        keys := array_remove(keys, (SELECT c.ordering_key FROM {schema}.commands c WHERE c.id = ids[1]));
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
                                              room - cardinality(ids), held.at);
            lanes := lanes || array_fill(0, ARRAY[cardinality(ids) - cardinality(lanes)]);
        END IF;
    END LOOP;
    IF cardinality(ids) = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE {schema}.commands c
       SET status = 'running', worker_id = worker, fence = c.fence + 1, started_at = clock_timestamp(),
           updated_at = clock_timestamp(),
           line_at = CASE WHEN c.ordering_key IS NOT NULL THEN coalesce(c.line_at, c.run_at) END
      FROM unnest(ids, lanes) AS picked(id, lane)
     WHERE c.id = picked.id
    RETURNING c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority, c.tenant,
              c.entity_type, c.entity_id, c.attempts, c.max_attempts, c.crashes, c.fence,
              date_part('epoch', c.run_at), c.deadline, c.deadline < clock_timestamp(),
              c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited, c.ordering_key,
              c.correlation_id, c.causation_id, c.traceparent, c.body_id, c.body_at, c.body_bytes,
              date_part('epoch', clock_timestamp() - c.run_at),
              date_part('epoch', clock_timestamp() - c.created_at), picked.lane, NULL::text, NULL::double precision;
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
     WHERE queue = of_queue;
END
$$;

-- Which of a queue's commands run: those claimed and not ended yet, looked up only when there may be
-- more of them than `enough`. From time to time all are counted, since workers that do not know the
-- limit may have claimed some. A row with a worker is running (a constraint says so): asking for the
-- status would invite the planner to the index of running rows, whose dead entries it would join.
CREATE FUNCTION {schema}.still_running(of_queue text, claimed bigint[], counted_at timestamptz, enough integer)
    RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF counted_at IS NULL OR counted_at NOT BETWEEN clock_timestamp() - interval '10 seconds' AND clock_timestamp() THEN
        RETURN ARRAY(SELECT c.id FROM {schema}.commands c WHERE c.status = 'running' AND c.queue = of_queue);
    ELSIF cardinality(claimed) <= enough THEN
        RETURN claimed;
    END IF;
    RETURN ARRAY(SELECT c.id FROM unnest(claimed) AS known(id)
                   JOIN {schema}.commands c ON c.id = known.id AND c.worker_id IS NOT NULL AND c.queue = of_queue);
END
$$;

-- The rows at the front of these lines that may run now: in the order of each line, none if the first
-- is somebody else's. A row that an operator has locked, or that this worker cannot run, ends its line.
CREATE FUNCTION {schema}.pick_lines(
    of_queue text, types text[], keys text[], share integer, at_once integer, blocking boolean,
    room integer, at timestamptz
) RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
                       ORDER BY c.status, c.line_at, c.id LIMIT 1) holder ON true
                 CROSS JOIN LATERAL (
                      SELECT holder.id, holder.type, holder.line_at AS place
                       WHERE holder.status = 'waiting' AND holder.run_at <= at AND holder.crashes = 0
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
                             AND c.status = 'running' LIMIT at_once) AS few) running
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

-- One command that was running when a worker died: of a line if nothing stands before it, else any.
CREATE FUNCTION {schema}.pick_suspect(of_queue text, types text[], at_once integer, blocking boolean)
    RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint[];
BEGIN
    found := ARRAY(
        SELECT c.id FROM unnest(types) AS mine(type)
         CROSS JOIN LATERAL (
             SELECT c.id FROM {schema}.commands c
              WHERE c.queue = of_queue AND c.type = mine.type AND c.status = 'waiting' AND c.line_at IS NOT NULL
                AND c.crashes > 0 AND c.run_at <= clock_timestamp()
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

-- ------------------------------------------------------------------------------------- sending
-- The functions of 0003 with three parameters more. on_conflict: what happens when a command of this type
-- with this unique key is unsettled: keep (nothing is written; its id is answered, as a duplicate),
-- replace (it is cancelled, unless it runs), reject (the call fails).

DROP FUNCTION {schema}.send_command(text, jsonb, text, uuid, integer, integer, timestamptz, timestamptz,
    integer, text, text, text, text, uuid, text);
DROP FUNCTION {schema}.send_command_arrays(text[], jsonb[], text[], uuid[], integer[], integer[],
    timestamptz[], timestamptz[], integer[], text[], text[], text[], text[], uuid[], text[]);

-- Before commands with unique keys are written: which of them are not to be, since another stays. Senders
-- of a key come one after the other, until each has committed; the locks are taken in one order, so that
-- two pages with the same keys do not deadlock. Of several in one page that replace, the last one counts.
CREATE FUNCTION {schema}.make_way(types text[], keys text[], on_conflicts text[]) RETURNS boolean[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
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
      JOIN {schema}.commands c ON c.type = g.type AND c.unique_key = g.key AND c.status <> 'failed'
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
                        WHERE c.type = g.type AND c.unique_key = g.key AND c.status <> 'failed')
               OR g.last_n > g.n) ORDER BY g.n)
      INTO stays
      FROM (SELECT u.*, max(u.n) FILTER (WHERE u.mode = 'replace') OVER (PARTITION BY u.type, u.key) AS last_n
              FROM unnest(types, keys, on_conflicts) WITH ORDINALITY AS u(type, key, mode, n)) AS g;
    RETURN stays;
END
$$;

-- Cancel the unsettled command of a unique key, unless it runs.
CREATE FUNCTION {schema}.cancel_unique(of_type text, key text) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM {schema}.commands
         WHERE type = of_type AND unique_key = key AND status IN ('pending', 'waiting')
        RETURNING *
    )
    INSERT INTO {schema}.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
            unique_key, tenant, entity_type, entity_id, status, attempts, max_attempts, crashes, fence,
            run_at, deadline, worker_id, started_at, cancel_requested, origin_kind, origin_id, replay_of,
            batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
            body_id, body_at, body_bytes, created_at, updated_at, finished_at, awaited)
    SELECT id, command_id, queue, type, schema_version, payload, priority, ordering_key, bucket,
           unique_key, tenant, entity_type, entity_id, 'cancelled', attempts, max_attempts, crashes, fence,
           run_at, deadline, worker_id, started_at, true, origin_kind, origin_id, replay_of,
           batch_id, correlation_id, causation_id, traceparent, errors, fingerprint, result, progress,
           body_id, body_at, body_bytes, created_at, clock_timestamp(), clock_timestamp(), awaited
      FROM gone
$$;

-- What was there instead of a command that was not written; its snapshot is younger than the insert's.
CREATE FUNCTION {schema}.kept_command(command_key uuid, of_type text, key text)
    RETURNS TABLE (id bigint, command_id uuid)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.id, c.command_id FROM {schema}.commands c WHERE c.command_id = command_key
    UNION ALL
    SELECT c.id, c.command_id FROM {schema}.commands c
     WHERE c.type = of_type AND c.unique_key = key AND c.status <> 'failed' AND c.command_id <> command_key
     LIMIT 1
$$;

CREATE FUNCTION {schema}.send_command(
    type text, payload jsonb DEFAULT '{}', queue text DEFAULT NULL, command_id uuid DEFAULT NULL,
    schema_version integer DEFAULT 1, priority integer DEFAULT 0, run_at timestamptz DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, max_attempts integer DEFAULT NULL, tenant text DEFAULT NULL,
    entity_type text DEFAULT NULL, entity_id text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, traceparent text DEFAULT NULL,
    ordering_key text DEFAULT NULL, unique_key text DEFAULT NULL, on_conflict text DEFAULT 'keep',
    OUT id bigint, OUT new_command_id uuid, OUT duplicate boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF send_command.unique_key IS NOT NULL THEN
        SELECT sent.id, sent.command_id, sent.duplicate
          INTO send_command.id, send_command.new_command_id, send_command.duplicate
          FROM {schema}.send_command_arrays(
               ARRAY[send_command.type], ARRAY[send_command.payload], ARRAY[send_command.queue],
               ARRAY[send_command.command_id], ARRAY[send_command.schema_version],
               ARRAY[send_command.priority], ARRAY[send_command.run_at], ARRAY[send_command.deadline],
               ARRAY[send_command.max_attempts], ARRAY[send_command.tenant], ARRAY[send_command.entity_type],
               ARRAY[send_command.entity_id], ARRAY[send_command.correlation_id],
               ARRAY[send_command.causation_id], ARRAY[send_command.traceparent],
               ARRAY[send_command.ordering_key], ARRAY[send_command.unique_key],
               ARRAY[send_command.on_conflict]) AS sent;
        RETURN;
    END IF;
    new_command_id := coalesce(send_command.command_id, {schema}.new_uuid());
    INSERT INTO {schema}.commands AS c
           (command_id, queue, type, schema_version, payload, priority, run_at, deadline, max_attempts,
            tenant, entity_type, entity_id, correlation_id, causation_id, traceparent,
            ordering_key)
    VALUES (new_command_id, send_command.queue, send_command.type, send_command.schema_version,
            coalesce(send_command.payload, '{}'), send_command.priority,
            coalesce(send_command.run_at, now()),
            send_command.deadline, send_command.max_attempts, send_command.tenant,
            send_command.entity_type, send_command.entity_id, send_command.correlation_id,
            send_command.causation_id, send_command.traceparent, send_command.ordering_key)
    ON CONFLICT (command_id) DO NOTHING
    RETURNING c.id INTO send_command.id;
    duplicate := send_command.id IS NULL;
    IF duplicate THEN
        SELECT c.id INTO send_command.id FROM {schema}.commands c WHERE c.command_id = new_command_id;
    END IF;
END
$$;

CREATE FUNCTION {schema}.send_command_arrays(
    types text[], payloads jsonb[], queues text[] DEFAULT NULL, command_ids uuid[] DEFAULT NULL,
    schema_versions integer[] DEFAULT NULL, priorities integer[] DEFAULT NULL,
    run_ats timestamptz[] DEFAULT NULL, deadlines timestamptz[] DEFAULT NULL,
    max_attempts integer[] DEFAULT NULL, tenants text[] DEFAULT NULL, entity_types text[] DEFAULT NULL,
    entity_ids text[] DEFAULT NULL, correlation_ids text[] DEFAULT NULL,
    causation_ids uuid[] DEFAULT NULL, traceparents text[] DEFAULT NULL,
    ordering_keys text[] DEFAULT NULL, unique_keys text[] DEFAULT NULL, on_conflicts text[] DEFAULT NULL
) RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    stays boolean[];
BEGIN
    PERFORM {schema}.refuse_ragged(
        cardinality(types), cardinality(payloads), cardinality(queues), cardinality(command_ids),
        cardinality(schema_versions), cardinality(priorities), cardinality(run_ats),
        cardinality(deadlines), cardinality(max_attempts), cardinality(tenants),
        cardinality(entity_types), cardinality(entity_ids), cardinality(correlation_ids),
        cardinality(causation_ids), cardinality(traceparents), cardinality(ordering_keys),
        cardinality(unique_keys), cardinality(on_conflicts));
    IF unique_keys IS NOT NULL THEN
        stays := {schema}.make_way(types, unique_keys, on_conflicts);
    END IF;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT g.*, coalesce(g.given_id, {schema}.new_uuid()) AS command_id
          FROM unnest(types, payloads, queues, command_ids, schema_versions, priorities, run_ats,
                      deadlines, send_command_arrays.max_attempts, tenants, entity_types,
                      entity_ids, correlation_ids, causation_ids, traceparents, ordering_keys,
                      unique_keys, stays) WITH ORDINALITY
               AS g(type, payload, queue, given_id, schema_version, priority, run_at, deadline,
                    max_attempts, tenant, entity_type, entity_id, correlation_id, causation_id,
                    traceparent, ordering_key, unique_key, stays, ordinal)
    ), written AS (
        INSERT INTO {schema}.commands
               (command_id, queue, type, schema_version, payload, priority, run_at, deadline,
                max_attempts, tenant, entity_type, entity_id, correlation_id, causation_id,
                traceparent, ordering_key, unique_key)
        SELECT command_id, queue, type, coalesce(schema_version, 1), coalesce(payload, '{}'),
               coalesce(priority, 0), coalesce(run_at, now()), deadline, max_attempts, tenant,
               entity_type, entity_id, correlation_id, causation_id, traceparent, ordering_key,
               unique_key
          FROM given WHERE stays IS DISTINCT FROM true ORDER BY given_id, ordinal
        ON CONFLICT DO NOTHING
        RETURNING id, command_id
    )
    SELECT g.ordinal, coalesce(w.id, kept.id), coalesce(kept.command_id, g.command_id),
           w.id IS NULL OR row_number() OVER (PARTITION BY g.command_id ORDER BY g.ordinal) > 1
      FROM given g LEFT JOIN written w ON w.command_id = g.command_id
      LEFT JOIN LATERAL {schema}.kept_command(g.command_id, g.type, g.unique_key) kept ON w.id IS NULL
     ORDER BY g.ordinal;
END
$$;

CREATE OR REPLACE FUNCTION {schema}.send_commands(commands jsonb)
    RETURNS TABLE (ordinal bigint, id bigint, command_id uuid, duplicate boolean)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT {schema}.refuse_unknown_keys(commands, ARRAY[
        'command_id', 'queue', 'type', 'schema_version', 'payload', 'priority',
        'run_at', 'deadline', 'max_attempts', 'tenant', 'entity_type', 'entity_id',
        'correlation_id', 'causation_id', 'traceparent', 'ordering_key', 'unique_key', 'on_conflict']);
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
                   array_agg(r.traceparent) AS traceparents,
                   array_agg(r.ordering_key) AS ordering_keys,
                   array_agg(r.unique_key) FILTER (WHERE u.any_unique) AS unique_keys,
                   array_agg(r.on_conflict) FILTER (WHERE u.any_unique) AS on_conflicts
              FROM (SELECT value FROM jsonb_array_elements(commands) WITH ORDINALITY AS e(value, n)
                     ORDER BY n) AS item
             CROSS JOIN LATERAL jsonb_to_record(item.value) AS r(
                   command_id uuid, queue text, type text, schema_version integer, payload jsonb,
                   priority integer, run_at timestamptz, deadline timestamptz, max_attempts integer,
                   tenant text, entity_type text, entity_id text, correlation_id text,
                   causation_id uuid, traceparent text, ordering_key text, unique_key text, on_conflict text)
             CROSS JOIN (SELECT EXISTS (SELECT FROM jsonb_array_elements(commands) AS e(value)
                                         WHERE e.value ->> 'unique_key' IS NOT NULL) AS any_unique) AS u) AS a
     CROSS JOIN LATERAL {schema}.send_command_arrays(
           a.types, a.payloads, a.queues, a.command_ids, a.schema_versions, a.priorities, a.run_ats,
           a.deadlines, a.max_attempts, a.tenants, a.entity_types, a.entity_ids, a.correlation_ids,
           a.causation_ids, a.traceparents, a.ordering_keys, a.unique_keys, a.on_conflicts) AS written
     ORDER BY written.ordinal
$$;

-- --------------------------------------------------------------------------------- privileges

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_producer') IS NOT NULL THEN
        GRANT INSERT (ordering_key, unique_key) ON {schema}.commands TO {schema}_producer;
        GRANT EXECUTE ON FUNCTION {schema}.send_command, {schema}.send_command_arrays TO {schema}_producer;
    END IF;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.limits TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.claim_limited, {schema}.still_running, {schema}.pick_lines,
              {schema}.pick_suspect, {schema}.make_way, {schema}.send_command TO {schema}_worker;
    END IF;
END
$do$;
