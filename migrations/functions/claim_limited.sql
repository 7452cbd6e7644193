-- Lease due commands of one queue, within its limits and in the order of their keys.
--
-- total: the most that run over all workers; rate, period: the most that are claimed in any period; types: what this
-- worker runs; lanes as in claim_commands.sql; keys: whose lines to read, at most `share` rows of each; at_once: how many
-- of a key may run; blocking: whether a dead letter holds its key (only for at_once = 1, otherwise no order is
-- kept); suspect: also suspects, all of of_group that have room, or one of any group; alone: no other command runs on this
-- worker. It never waits.
--
-- A claim locks its keys by buckets: it tries an advisory lock on each, and skips the keys of buckets that another claim
-- has locked. Later statements read the rows, whose snapshots show every earlier claim of those keys. There are enough
-- buckets that claims of some dozen keys seldom collide, and few enough that all claims of all queues together never fill
-- the server's table of locks. Only queues with a limit over all workers lock their row in limits.
--
-- following: rows of these keys that this worker claimed until then (a time of this server's, in seconds) do not hold
-- them, and the claimed rows run after those. Rows that it claimed later do hold them, so that an abandoned claim that is
-- executed late does not overtake them.
--
-- Returns the rows in NO order, lane 0 for those of a line; or one row whose held_back gives the reason why no row can be claimed:
-- 'busy' (another claim has the queue or the keys), 'full', 'rate', and `again` in seconds. passed, in one of the rows: the
-- keys that another claim has locked.
-- called by: the daemon
-- roles: worker
-- locks: the rows, SKIP LOCKED; the queue's row in limits, if it has a limit; buckets of keys; the worker's row, KEY
--   SHARE
CREATE OR REPLACE FUNCTION {schema}.claim_limited(
    worker uuid, of_queue text, most integer, total integer, rate integer, period double precision,
    types text[], lane_types text[], lane_priorities smallint[], after_ats double precision[],
    after_ids bigint[], lanes_first boolean, keys text[], share integer, at_once integer,
    blocking boolean, suspect boolean, following double precision DEFAULT NULL, of_group uuid DEFAULT NULL,
    alone boolean DEFAULT false
) RETURNS TABLE (
    id bigint, command_id uuid, queue text, type text, schema_version smallint, payload jsonb,
    priority smallint, tenant text, entity_type text, entity_id text, attempts smallint,
    max_attempts smallint, crashes smallint, fence bigint, run_at double precision, deadline timestamptz,
    late boolean, expires_in double precision, cancel_requested boolean, origin_kind text, origin_id bigint, replay_of bigint,
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
    -- (Without such a limit no row is read, but held.at is set.)
    SELECT l.*, clock_timestamp() AS at INTO held FROM {schema}.limits l
     WHERE (total IS NOT NULL OR rate IS NOT NULL) AND l.name = of_queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND (total IS NOT NULL OR rate IS NOT NULL) THEN
        -- Read first: ON CONFLICT would wait for a transaction that is changing the row.
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
        SELECT coalesce(array_agg(p.id ORDER BY p.n), '{}') AS ids,
               array_agg(DISTINCT p.key) FILTER (WHERE p.key IS NOT NULL) AS keys
          INTO more
          FROM (SELECT n.id, n.n, (SELECT c.ordering_key FROM {schema}.commands c WHERE c.id = n.id) AS key
                  FROM unnest({schema}.pick_suspects(of_queue, types, at_once, blocking, of_group,
                                                     CASE WHEN of_group IS NULL THEN 1 ELSE room END))
                       WITH ORDINALITY AS n(id, n)) AS p;
        ids := more.ids;
        IF more.keys IS NOT NULL THEN
            -- They were picked before their lines were locked: only those that are picked again count.
            SELECT coalesce(array_agg(k.key) FILTER (WHERE k.mine), '{}') AS mine,
                   array_agg(k.key) FILTER (WHERE NOT k.mine) AS others
              INTO more
              FROM (SELECT asked.key,
                           pg_try_advisory_xact_lock(line, hashtext(of_queue || '/' || asked.key) & 1023) AS mine
                      FROM unnest(more.keys) AS asked(key)
                    OFFSET 0) AS k;
            others := others || more.others;
            keys := ARRAY(SELECT k.key FROM unnest(keys) AS k(key) WHERE k.key <> ALL (more.mine));
            ids := ARRAY(SELECT n.id
                           FROM unnest({schema}.pick_suspects(of_queue, types, at_once, blocking, of_group,
                                                              CASE WHEN of_group IS NULL THEN 1 ELSE room END))
                                WITH ORDINALITY AS n(id, n)
                          WHERE (SELECT coalesce(c.ordering_key = ANY (more.mine), true)
                                   FROM {schema}.commands c WHERE c.id = n.id)
                          ORDER BY n.n);
            others := nullif(others || ARRAY(
                SELECT k.key FROM unnest(more.mine) AS k(key)
                 WHERE k.key <> ALL (ARRAY(SELECT coalesce(c.ordering_key, '') FROM {schema}.commands c
                                            WHERE c.id = ANY (ids)))), '{}');
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
       -- (Distinct by their positions: the rows of a line start in its order, though they are updated in another.)
       SET status = 'running', worker_id = worker, fence = c.fence + 1,
           started_at = held.at + found.position * interval '1 microsecond',
           updated_at = clock_timestamp(),
           alone_fence = CASE WHEN alone THEN c.fence + 1 END,
           line_at = CASE WHEN c.ordering_key IS NOT NULL THEN coalesce(c.line_at, c.run_at) END
      FROM (SELECT f.* FROM unnest(ids, lanes) WITH ORDINALITY AS f(id, lane, position) ORDER BY f.id) found
     WHERE c.id BETWEEN found.id AND found.id
    RETURNING c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority, c.tenant,
              c.entity_type, c.entity_id, c.attempts, c.max_attempts, c.crashes, c.fence,
              date_part('epoch', c.run_at), c.deadline, c.deadline < clock_timestamp(),
              CASE WHEN c.expires_at IS NOT NULL AND c.attempts = 0 AND c.crashes = 0
                   THEN date_part('epoch', c.expires_at - clock_timestamp()) END,
              c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited, c.ordering_key,
              c.correlation_id, c.causation_id, c.traceparent, c.body_id, c.body_at, c.body_bytes,
              date_part('epoch', clock_timestamp() - c.run_at),
              date_part('epoch', clock_timestamp() - c.created_at), found.lane, NULL::text, NULL::double precision,
              CASE WHEN found.position = 1 THEN others END;
    IF total IS NULL AND rate IS NULL THEN
        RETURN;
    END IF;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF rate IS NOT NULL THEN
        -- By the time of its last start; claims that are close together are counted as one, at the later time, so that
        -- there are at most about 100.
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
