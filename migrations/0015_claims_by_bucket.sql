-- Claims from the lines of different keys go side by side, and the next rows of a line are claimed while
-- those before still run (ADR 11).
-- oldest code: 4
--
-- Until now each claim that looked at a queue's lines locked the queue's row in `limits`, so that workers
-- that drain keyed commands waited for each other three quarters of the time. Now a claim holds the keys
-- that it asks, by buckets: it tries an advisory lock on each, and passes the keys of buckets that another
-- claim has. What it then reads is read by later statements, whose snapshots show every earlier claim of
-- those keys. Only queues with a limit over all workers still lock their row, since they count.
--
-- And until now nothing of a line was claimed while any of it ran, so that one key alone was claimed, run
-- and settled by turns. Now a worker may say `following`: the keys it asks are those of which it runs rows
-- that it claimed until then, and what it takes runs after them there.

-- A claim by the function as it was would not know of buckets. One that is under way is waited for; one
-- that waits for this finds no column `queue`, fails, and is tried again: that is all the new name is for.
LOCK TABLE {schema}.limits IN ACCESS EXCLUSIVE MODE;
ALTER TABLE {schema}.limits RENAME COLUMN queue TO name;

-- claim_limited as 0006 has it, but for those locks. There are so many buckets that claims of some dozen
-- keys seldom meet, and so few that all claims of all queues together never fill the server's table of
-- locks. Of the keys it was asked for, `passed`, in one of the rows, are those that another claim has just
-- now, and the key of a suspect that was left to one; when nothing else could be taken, they are in the row
-- that says 'busy'. (Workers of an older release do not read it: they find such keys by their next look.)
-- following: what the worker itself has claimed of these keys until then (a time of this server's, in
-- seconds) does not hold them. What it claimed later does: a claim that it gave up, and that is executed
-- late, does not reach behind that.
DROP FUNCTION {schema}.claim_limited(uuid, text, integer, integer, integer, double precision, text[], text[],
    smallint[], double precision[], bigint[], boolean, text[], integer, integer, boolean, boolean);

CREATE FUNCTION {schema}.claim_limited(
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
       -- (Told apart by their places: the rows of a line start in its order, however they are found here.)
       SET status = 'running', worker_id = worker, fence = c.fence + 1,
           started_at = held.at + array_position(ids, c.id) * interval '1 microsecond',
           updated_at = clock_timestamp(),
           line_at = CASE WHEN c.ordering_key IS NOT NULL THEN coalesce(c.line_at, c.run_at) END
     WHERE c.id = ANY (ids)
    RETURNING c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority, c.tenant,
              c.entity_type, c.entity_id, c.attempts, c.max_attempts, c.crashes, c.fence,
              date_part('epoch', c.run_at), c.deadline, c.deadline < clock_timestamp(),
              c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited, c.ordering_key,
              c.correlation_id, c.causation_id, c.traceparent, c.body_id, c.body_at, c.body_bytes,
              date_part('epoch', clock_timestamp() - c.run_at),
              date_part('epoch', clock_timestamp() - c.created_at), CASE WHEN cardinality(lane_types) = 0 THEN 0 ELSE lanes[array_position(ids, c.id)] END, NULL::text, NULL::double precision,
              CASE WHEN c.id = ids[1] THEN others END;
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

DROP FUNCTION {schema}.pick_lines(text, text[], text[], integer, integer, boolean, integer, timestamptz);

-- The rows at the front of these lines that may run now: in the order of each line, none if the first
-- is somebody else's. A row that an operator has locked, or that this worker cannot run, ends its line.
-- until: what runs at `own`, a worker, since then or before holds nothing, where one of a line runs at a
-- time; then nothing is taken that runs again, since it must not stand behind others. Null: all holds.
CREATE FUNCTION {schema}.pick_lines(
    of_queue text, types text[], keys text[], share integer, at_once integer, blocking boolean,
    room integer, at timestamptz, own uuid, until timestamptz
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

REVOKE EXECUTE ON FUNCTION {schema}.claim_limited, {schema}.pick_lines FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.claim_limited, {schema}.pick_lines TO {schema}_worker;
    END IF;
END
$do$;
