-- Facts about an unsettled command: each condition of its claims, as it is now, in one snapshot.
-- parameters: $1 bigint id, its queue's settings: $2 integer how many of a key run at once, $3 boolean: a dead letter
--             holds its key, $4 integer most that run over all workers, $5 integer most that are claimed in
--             $6 double precision seconds, $7 integer most in one worker (each null: any number); $8 integer most
--             commands of one worker, $9 integer: where counting stops
-- returns: one jsonb object, or no row if it is settled: the row's columns that claims use, now, and paused, endpoint,
--          unpartitioned (history has no partition for today), living, serving, full and alone (workers), breakers,
--          waits_for (unmet dependencies of the row or its batches: at most five, dead letters first) and unmet (their
--          number), holder (the row of its key that must end first), first and ahead (the first row before it there, and
--          their number), each with what holds its type: paused, serving, breaker; keyed (how many of its key run),
--          total (how many of its queue run), claimed and again (of the rate), others (of its group of suspects), rival
--          (the command that has its unique key), cancelled (its batch, if it is or is being cancelled), worker,
--          rescuers (other running workers), rules (retry rules of its type)
-- locks: nothing
WITH RECURSIVE own AS MATERIALIZED (
    SELECT c.id, c.command_id, c.queue, c.type, c.tenant, c.status, c.priority, c.ordering_key, c.unique_key,
           c.attempts, c.max_attempts, c.crashes, c.run_at, c.worker_id, c.started_at, c.cancel_requested, c.batch_id,
           c.needs, c.line_at, c.expires_at, c.suspect_group, c.lone_crashes, clock_timestamp() AS now
      FROM {schema}.commands c WHERE c.id = $1
), above AS (
    SELECT b.batch_id, b.parent_id, 1 AS level FROM {schema}.batches b
     WHERE b.id = (SELECT own.batch_id FROM own WHERE own.needs > 0)
    UNION ALL
    SELECT b.batch_id, b.parent_id, above.level + 1 FROM above JOIN {schema}.batches b ON b.id = above.parent_id
     WHERE above.level < 8
), serving AS MATERIALIZED (
    SELECT w.id, w.in_flight - coalesce(w.events_in_flight, 0) >= $8
               OR ($7::integer IS NOT NULL AND (
                   SELECT count(*) FROM (SELECT FROM {schema}.commands c
                                          WHERE c.status = 'running' AND c.worker_id = w.id AND c.queue = own.queue
                                          LIMIT $7) AS of_queue) >= $7) AS full,
           EXISTS (SELECT FROM {schema}.leases l WHERE l.name = 'alone' AND l.holder = w.id)
               OR EXISTS (SELECT FROM {schema}.commands c
                           WHERE c.status = 'running' AND c.worker_id = w.id AND c.alone_fence = c.fence) AS alone
      FROM own JOIN {schema}.workers w ON w.state = 'running' AND own.type = ANY (w.commands)
       AND (cardinality(w.queues) = 0 OR own.queue = ANY (w.queues))
), edge AS MATERIALIZED (
    SELECT edge.needs, edge.condition
      FROM (SELECT own.command_id AS uuid, 0 AS level FROM own WHERE own.needs > 0
            UNION ALL SELECT above.batch_id, above.level FROM above) AS waiter
     CROSS JOIN LATERAL (SELECT d.needs, d.condition FROM {schema}.dependencies d
                          WHERE d.waiting = waiter.uuid LIMIT $9 + 1) AS edge
     LIMIT $9 + 1
), holder AS MATERIALIZED (
    SELECT h.id, h.type, h.tenant, h.status, h.run_at, h.crashes, true AS holds
      FROM own CROSS JOIN LATERAL (
          SELECT h.id, h.type, h.tenant, h.status, h.run_at, h.crashes FROM {schema}.commands h
           WHERE $2 = 1 AND own.needs = 0 AND h.queue = own.queue AND h.ordering_key = own.ordering_key
             AND h.line_at IS NOT NULL AND h.status >= CASE WHEN $3 THEN 'failed' ELSE 'running' END
             AND h.id <> own.id
             AND (own.line_at IS NULL OR (h.status, h.line_at, h.id) < ('waiting', own.line_at, own.id))
           ORDER BY h.status, h.line_at, h.id LIMIT 1) AS h
), first AS MATERIALIZED (
    SELECT h.id, h.type, h.tenant, h.status, h.run_at, h.crashes, false AS holds
      FROM own CROSS JOIN LATERAL (
          SELECT each.* FROM (
              (SELECT 1 AS n, h.id, h.type, h.tenant, h.status, h.run_at, h.crashes FROM {schema}.commands h
                WHERE $2 > 1 AND own.needs = 0 AND h.queue = own.queue AND h.ordering_key = own.ordering_key
                  AND h.line_at IS NOT NULL AND h.status BETWEEN 'waiting' AND 'waiting' AND h.run_at <= own.now
                  AND h.crashes = 0 AND (h.line_at, h.id) < (coalesce(own.line_at, own.run_at), own.id)
                ORDER BY h.status, h.line_at, h.id LIMIT 1)
              UNION ALL
              (SELECT 2, h.id, h.type, h.tenant, h.status, h.run_at, h.crashes FROM {schema}.commands h
                WHERE own.line_at IS NULL AND h.status = 'waiting' AND h.needs = 0 AND h.line_at IS NULL
                  AND h.queue = own.queue AND h.ordering_key = own.ordering_key
                  AND (h.run_at, h.id) < (own.run_at, own.id)
                ORDER BY h.run_at, h.id LIMIT 1)) AS each
           ORDER BY each.n LIMIT 1) AS h
), before AS MATERIALIZED (
    SELECT r.id, r.type, r.tenant, r.status, r.run_at, r.crashes, r.holds, r.type = own.type AS alike,
           (SELECT jsonb_build_object('at', k.paused_at, 'actor', k.actor, 'reason', k.reason)
              FROM {schema}.controls k WHERE k.kind = 'type' AND k.name = r.type) AS paused,
           (SELECT count(*) FROM {schema}.workers w
             WHERE w.state = 'running' AND r.type = ANY (w.commands)
               AND (cardinality(w.queues) = 0 OR own.queue = ANY (w.queues))) AS serving,
           (SELECT b.name FROM {schema}.breakers b
             WHERE b.uses @> ARRAY['command ' || r.type]
               AND (b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed') ORDER BY b.name LIMIT 1) AS breaker
      FROM own CROSS JOIN (SELECT * FROM holder UNION ALL SELECT * FROM first) AS r
)
SELECT to_jsonb(own) - ARRAY['suspect_group'] || jsonb_build_object(
    'paused', (SELECT jsonb_agg(to_jsonb(k) ORDER BY k.kind) FROM (
        SELECT k.kind, k.name, k.paused_at, k.actor, k.reason FROM {schema}.controls k
         WHERE (k.kind, k.name) IN (('queue', own.queue), ('type', own.type))) AS k),
    'endpoint', (SELECT jsonb_build_object('name', e.name, 'at', e.disabled_at, 'by', e.disabled_by,
                                           'reason', e.disabled_reason)
                   FROM {schema}.endpoints e WHERE 'webhooks.' || e.name = own.queue AND NOT e.enabled),
    'unpartitioned', EXISTS (  -- as partition_days.sql has it, of today
        SELECT FROM unnest(ARRAY['bodies', 'events_history', 'commands_history', 'receipts']) AS parent
         WHERE NOT EXISTS (
             SELECT FROM pg_inherits i
              WHERE i.inhrelid = to_regclass('{schema}.' || parent || to_char(own.now AT TIME ZONE 'UTC', '_YYYYMMDD'))
                AND i.inhparent = to_regclass('{schema}.' || parent) AND NOT i.inhdetachpending)),
    'living', (SELECT count(*) FROM {schema}.workers w WHERE w.state = 'running'),
    'serving', (SELECT count(*) FROM serving),
    'full', (SELECT count(*) FROM serving WHERE serving.full OR serving.alone),
    'alone', (SELECT count(*) FROM serving WHERE serving.alone),
    'breakers', (SELECT jsonb_agg(to_jsonb(k) ORDER BY k.name) FROM (
        SELECT b.name, b.mode, b.state, b.open_until, {content text: b.reason} AS reason, b.actor,
               CASE WHEN b.probe_until > own.now THEN coalesce(w.name, b.probe_by::text) END AS prober
          FROM {schema}.breakers b LEFT JOIN {schema}.workers w ON w.id = b.probe_by
         WHERE b.uses && ARRAY['command ' || own.type, 'queue ' || own.queue]
           AND (b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed')) AS k),
    'waits_for', (SELECT jsonb_agg(to_jsonb(k)) FROM (
        SELECT edge.condition, coalesce(met.kind, 'row') AS kind, met.id, met.type, met.tenant, met.status, met.size,
               met.ended, met.failed, met.is_open
          FROM edge
          LEFT JOIN LATERAL (
              SELECT b.kind, b.id, b.name AS type, b.tenant, b.status, b.size,
                     b.succeeded + b.failed + b.cancelled + b.skipped AS ended, b.failed, b.closed_at IS NULL AS is_open
                FROM {schema}.batches b WHERE b.batch_id = edge.needs
               UNION ALL
              SELECT 'command', c.id, c.type, c.tenant, c.status, NULL, NULL, NULL, NULL
                FROM {schema}.commands c WHERE c.command_id = edge.needs) AS met ON true
         ORDER BY met.status = 'failed' OR met.failed > 0 AND edge.condition = 'succeeded' DESC NULLS LAST,
                  met.id IS NULL, met.kind, met.id LIMIT 5) AS k),
    'unmet', (SELECT count(*) FROM edge),
    'holder', (SELECT to_jsonb(before) FROM before WHERE before.holds),
    'first', (SELECT to_jsonb(before) FROM before WHERE NOT before.holds),
    'keyed', (SELECT count(*) FROM (
        SELECT FROM {schema}.commands h
         WHERE $2 > 1 AND h.queue = own.queue AND h.ordering_key = own.ordering_key AND h.line_at IS NOT NULL
           AND h.status BETWEEN 'running' AND 'running' LIMIT $2) AS h),
    'ahead', CASE WHEN own.status = 'pending' AND own.crashes = 0 THEN (SELECT count(*) FROM (
        SELECT FROM {schema}.commands h
         WHERE h.status = 'pending' AND h.crashes = 0 AND h.queue = own.queue AND h.type = own.type
           AND h.priority = own.priority AND (h.run_at, h.id) < (own.run_at, own.id)
         ORDER BY h.run_at, h.id LIMIT $9) AS h)
        WHEN own.status = 'waiting' AND own.needs = 0 AND own.line_at IS NULL THEN (SELECT count(*) FROM (
        SELECT FROM {schema}.commands h
         WHERE h.status = 'waiting' AND h.needs = 0 AND h.line_at IS NULL AND h.queue = own.queue
           AND h.ordering_key = own.ordering_key AND (h.run_at, h.id) < (own.run_at, own.id)
         ORDER BY h.run_at, h.id LIMIT $9) AS h) ELSE 0 END,
    'total', (SELECT count(*) FROM (
        SELECT FROM {schema}.limits l CROSS JOIN unnest(l.running) AS known(id)
          JOIN {schema}.commands c ON c.id BETWEEN known.id AND known.id AND c.worker_id IS NOT NULL
           AND c.queue = own.queue
         WHERE $4::integer IS NOT NULL AND l.name = own.queue AND cardinality(l.running) >= $4 LIMIT $4) AS c),
    'claimed', rate.rows, 'again', rate.again,
    'others', CASE WHEN own.suspect_group IS NULL THEN 0 ELSE (SELECT count(*) FROM (
        SELECT FROM {schema}.commands s WHERE s.suspect_group = own.suspect_group AND s.id <> own.id LIMIT $9) AS s) END,
    'rival', (SELECT jsonb_build_object('id', r.id, 'type', r.type, 'tenant', r.tenant, 'status', r.status)
                FROM {schema}.commands r
               WHERE own.unique_key IS NOT NULL AND r.unique_key IS NOT NULL AND r.status <> 'failed'
                 AND r.type = own.type AND r.unique_key = own.unique_key AND r.id <> own.id LIMIT 1),
    'cancelled', (SELECT jsonb_build_object('kind', b.kind, 'id', b.id, 'type', b.name)
                    FROM {schema}.batches b WHERE b.id = own.batch_id AND b.ending IS NOT NULL),
    'worker', (SELECT jsonb_build_object('name', w.name, 'state', w.state, 'beat_at', w.beat_at,
                                         'silence', extract(epoch FROM own.now - w.beat_at)::float8)
                 FROM {schema}.workers w WHERE w.id = own.worker_id),
    'rescuers', (SELECT count(*) FROM {schema}.workers w WHERE w.state = 'running' AND w.id <> own.worker_id),
    'rules', (SELECT t.retry FROM {schema}.declared_types t WHERE t.kind = 'command' AND t.type = own.type)
)
  FROM own
 CROSS JOIN LATERAL (
     SELECT coalesce(sum(c.rows), 0) AS rows, min(c.at) + make_interval(secs => $6) AS again
       FROM {schema}.limits l CROSS JOIN unnest(l.claimed_at, l.claimed) AS c(at, rows)
      WHERE $5::integer IS NOT NULL AND l.name = own.queue AND c.at > own.now - make_interval(secs => $6)) AS rate
