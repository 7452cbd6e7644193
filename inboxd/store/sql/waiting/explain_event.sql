-- Facts about an unsettled event: each condition of its claims, as it is now, in one snapshot.
-- parameters: $1 bigint id, $2 integer: where counting stops
-- returns: one jsonb object, or no row if it is settled: the row's columns that claims use, now, and paused, unpartitioned
--          (history has no partition for today), living and alone (workers: running; and those that run no events because
--          of a suspect), unhandled, declared (its topic: mode, relay, rules), breakers, holder (the head of its line, if that
--          is another, with what holds its type: paused, unhandled, breaker), head (of its line; of a chunk with length
--          and, as far as they were looked at, types), ahead (the number of events before it), intake (since when), writers
--          (producers of its topic and bucket that began before it and may still commit) and unseen (those whose begin this
--          role may not see), slots (of its topic, that are taken), leased (the worker that has leased its bucket), visited
--          (a page has locked its bucket), standby (the server does not know the writers), rules
-- locks: the lock manager's, all partitions, for as long as it takes to copy its entries
WITH own AS MATERIALIZED (
    SELECT e.id, e.topic, e.mode, e.type, e.tenant, e.status, e.ordering_key, e.bucket, e.attempts, e.crashes, e.run_at,
           e.position, e.head, e.created_at, clock_timestamp() AS now
      FROM {schema}.events e WHERE e.id = $1
), declared AS MATERIALIZED (
    SELECT t.mode, t.relay, t.rules FROM {schema}.topics t WHERE t.name = (SELECT own.topic FROM own)
), reader AS MATERIALIZED (  -- of a chunk: if one of these types may not be read, nothing of it may
    SELECT s.type FROM own JOIN {schema}.subscriptions s ON s.topic = own.topic AND s.undeclared_at IS NULL
     WHERE own.mode = 'batch' AND own.status = 'waiting'
), held AS MATERIALIZED (
    SELECT l.classid, l.objid, l.pid, l.virtualtransaction, l.locktype FROM pg_locks l
     WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND (l.locktype = 'advisory' AND l.objsubid = 2
            OR l.locktype = 'relation' AND l.relation = '{schema}.events'::regclass AND l.mode = 'RowExclusiveLock')
       AND l.pid IS DISTINCT FROM pg_backend_pid()
), writing AS MATERIALIZED (  -- who may still commit events of this topic: as read_horizon has it
    SELECT held.virtualtransaction
      FROM held LEFT JOIN {schema}.topics t ON held.classid = hashtext('{schema}.order.topics')::oid
                                           AND held.objid = hashtext(t.name)::oid
     GROUP BY held.virtualtransaction
    HAVING bool_or(held.locktype = 'relation')
       AND (count(*) FILTER (WHERE held.classid = hashtext('{schema}.order.topics')::oid) = 0
            OR bool_or(held.classid = hashtext('{schema}.order.topics')::oid
                       AND (t.name IS NULL OR held.objid = hashtext((SELECT own.topic FROM own))::oid)))
), line AS MATERIALIZED (
    SELECT h.id, h.type, h.tenant, h.status, h.run_at, h.crashes, h.position, h.created_at, h.type = own.type AS alike,
           {schema}.is_unhandled(own.topic, h.type) AS unhandled,
           (SELECT jsonb_build_object('at', k.paused_at, 'actor', k.actor, 'reason', k.reason)
              FROM {schema}.controls k WHERE k.kind = 'type' AND k.name = h.type) AS paused,
           (SELECT b.name FROM {schema}.breakers b
             WHERE b.uses @> ARRAY['event ' || h.type] AND b.uses && ARRAY['topic ' || own.topic, 'topic default']
               AND (b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed') ORDER BY b.name LIMIT 1) AS breaker,
           CASE WHEN coalesce((SELECT declared.mode FROM declared), own.mode) = 'batch' THEN
               (SELECT l.position FROM {schema}.events l
                 WHERE l.position IS NOT NULL AND l.topic = own.topic AND l.ordering_key = own.ordering_key
                 ORDER BY l.position DESC LIMIT 1) - h.position + 1 END AS length
      FROM own CROSS JOIN LATERAL (
          SELECT h.id, h.type, h.tenant, h.status, h.run_at, h.crashes, h.position, h.created_at FROM {schema}.events h
           WHERE h.head AND h.topic = own.topic AND h.ordering_key = own.ordering_key LIMIT 1) AS h
)
SELECT to_jsonb(own) || jsonb_build_object(
    'paused', (SELECT jsonb_agg(to_jsonb(k) ORDER BY k.kind) FROM (
        SELECT k.kind, k.name, k.paused_at, k.actor, k.reason FROM {schema}.controls k
         WHERE (k.kind, k.name) IN (('topic', own.topic), ('type', own.type))
            OR k.kind = 'type' AND k.name = ANY (ARRAY(SELECT reader.type FROM reader))) AS k),
    'unpartitioned', EXISTS (  -- as partition_days.sql has it, of today
        SELECT FROM unnest(ARRAY['bodies', 'events_history', 'commands_history', 'receipts']) AS parent
         WHERE NOT EXISTS (
             SELECT FROM pg_inherits i
              WHERE i.inhrelid = to_regclass('{schema}.' || parent || to_char(own.now AT TIME ZONE 'UTC', '_YYYYMMDD'))
                AND i.inhparent = to_regclass('{schema}.' || parent) AND NOT i.inhdetachpending)),
    'living', (SELECT count(*) FROM {schema}.workers w WHERE w.state = 'running'),
    'alone', (SELECT count(*) FROM {schema}.workers w
               WHERE w.state = 'running'
                 AND (EXISTS (SELECT FROM {schema}.leases l WHERE l.name = 'alone' AND l.holder = w.id)
                      OR EXISTS (SELECT FROM {schema}.commands c
                                  WHERE c.status = 'running' AND c.worker_id = w.id AND c.alone_fence = c.fence))),
    'unhandled', {schema}.is_unhandled(own.topic, own.type),
    'declared', (SELECT to_jsonb(declared) FROM declared),
    'breakers', (SELECT jsonb_agg(to_jsonb(k) ORDER BY k.name) FROM (
        SELECT b.name, b.mode, b.state, b.open_until, {content text: b.reason} AS reason, b.actor,
               CASE WHEN b.probe_until > own.now THEN coalesce(w.name, b.probe_by::text) END AS prober
          FROM {schema}.breakers b LEFT JOIN {schema}.workers w ON w.id = b.probe_by
         WHERE b.uses && ARRAY(SELECT 'event ' || own.type UNION ALL SELECT 'event ' || reader.type FROM reader)
           AND b.uses && ARRAY['topic ' || own.topic, 'topic default']
           AND (b.mode = 'open' OR b.mode = 'auto' AND b.state <> 'closed')) AS k),
    'holder', (SELECT to_jsonb(line) - ARRAY['position', 'length', 'created_at'] FROM line
                WHERE line.id <> own.id AND (own.position IS NULL OR line.position < own.position)),
    'head', (SELECT to_jsonb(line) || jsonb_build_object('types', CASE WHEN line.length <= $2 THEN ARRAY(
                SELECT DISTINCT l.type FROM {schema}.events l
                 WHERE l.position IS NOT NULL AND l.topic = own.topic AND l.ordering_key = own.ordering_key) END)
               FROM line),
    'ahead', CASE WHEN own.status = 'pending' THEN (SELECT count(*) FROM (
        SELECT FROM {schema}.events h
         WHERE h.status = 'pending' AND h.topic = own.topic AND h.type = own.type
           AND (h.run_at, h.id) < (own.run_at, own.id) ORDER BY h.run_at, h.id LIMIT $2) AS h)
        WHEN own.status = 'waiting' AND own.position IS NULL THEN (SELECT count(*) FROM (
        SELECT FROM {schema}.events h
         WHERE h.status = 'waiting' AND h.position IS NULL AND h.topic = own.topic
           AND (h.bucket, h.id) < (own.bucket, own.id) AND (h.bucket, h.id) > (own.bucket, 0)
         ORDER BY h.bucket, h.id LIMIT $2) AS h) ELSE 0 END,
    'intake', (SELECT min(i.announced_at) FROM {schema}.intakes i
                WHERE i.topic = own.topic AND i.finished_at IS NULL),
    'writers', writers.count, 'unseen', writers.unseen,
    'slots', (SELECT count(*) FROM held WHERE held.classid = hashtext('{schema}.slots.' || own.topic)::oid),
    'leased', (SELECT w.name FROM {schema}.relay_leases l JOIN {schema}.workers w ON w.id = l.worker_id
                WHERE l.topic = own.topic AND l.bucket = own.bucket AND w.state IN ('running', 'draining')),
    'visited', EXISTS (SELECT FROM held
                        WHERE held.classid = hashtext('{schema}/' || own.topic)::oid AND held.objid::bigint = own.bucket),
    'standby', pg_is_in_recovery(),
    'rules', (SELECT t.retry FROM {schema}.declared_types t WHERE t.kind = 'event' AND t.type = own.type)
)
  FROM own
 CROSS JOIN LATERAL (
     SELECT count(*) FILTER (WHERE held.pid IS NULL OR a.xact_start <= own.created_at) AS count,
            count(*) FILTER (WHERE a.pid IS NOT NULL AND a.xact_start IS NULL) AS unseen
       FROM held LEFT JOIN pg_stat_activity a ON a.pid = held.pid
      WHERE own.status = 'waiting' AND own.position IS NULL
        AND held.classid = hashtext('{schema}.order')::oid AND held.objid::bigint = own.bucket
        AND held.virtualtransaction IN (SELECT w.virtualtransaction FROM writing w)) AS writers
