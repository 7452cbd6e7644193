-- What a page costs whose rows are members of a batch, or are claimed within limits: less.
-- oldest code: 4

-- commands_settled as 0005 has it, but: it reads what was settled once, where it read it twice, or three
-- times for members of a batch; and what it notes of them needs no grouping when all of them are one
-- batch's and succeeded, as nearly always, and as each command that settles in its own transaction is.
CREATE OR REPLACE FUNCTION {schema}.commands_settled() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    all_of record;
BEGIN
    SELECT count(*) AS rows, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
           count(batch_id) AS members, min(batch_id) AS batch, max(batch_id) AS last_batch,
           array_agg(command_id) FILTER (WHERE awaited IS NOT false AND status <> 'failed') AS ended,
           array_agg(CASE WHEN status = 'succeeded' THEN 'succeeded'
                          WHEN status = 'cancelled' AND NOT cancel_requested THEN 'skipped'
                          ELSE 'cancelled' END)
               FILTER (WHERE awaited IS NOT false AND status <> 'failed') AS outcomes
      INTO all_of FROM settled;
    IF all_of.members = all_of.rows AND all_of.batch = all_of.last_batch AND all_of.succeeded = all_of.rows THEN
        INSERT INTO {schema}.batch_progress (batch_id, succeeded) VALUES (all_of.batch, all_of.succeeded);
    ELSIF all_of.members > 0 THEN
        INSERT INTO {schema}.batch_progress (batch_id, succeeded, failed, cancelled, skipped)
        SELECT batch_id, count(*) FILTER (WHERE status = 'succeeded'),
               -count(*) FILTER (WHERE status IN ('failed', 'dismissed')),
               count(*) FILTER (WHERE status = 'dismissed' OR status = 'cancelled' AND cancel_requested),
               count(*) FILTER (WHERE status = 'cancelled' AND NOT cancel_requested)
          FROM settled WHERE batch_id IS NOT NULL GROUP BY batch_id ORDER BY batch_id;
    END IF;
    IF all_of.ended IS NOT NULL THEN
        PERFORM {schema}.release(all_of.ended, all_of.outcomes);
    END IF;
    RETURN NULL;
END
$$;

-- claim_limited as 0015 has it, but: what it changes is joined with its place and lane, in the order of ids,
-- where each row was looked for in the whole page's ids.
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
     WHERE c.id = found.id
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
