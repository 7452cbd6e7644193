-- The number of other rows that an action on commands affects: those that wait for one of them, and those that stand in
-- line behind one that holds its ordering key. Each is counted once, and the given commands are not counted.
-- parameters: $1 bigint[] ids, $2 integer: where counting stops, $3 text[] queues whose dead letters hold no key,
--             $4 text[] queues that keep no order
-- returns: waiting, more_waiting (there may be more), behind, more_behind
-- locks: nothing
WITH own AS MATERIALIZED (
    SELECT c.command_id, c.queue, c.ordering_key, c.line_at, c.status FROM {schema}.commands c WHERE c.id = ANY ($1::bigint[])
), held AS MATERIALIZED (
    SELECT DISTINCT queue, ordering_key FROM own
     WHERE line_at IS NOT NULL AND queue <> ALL ($4::text[]) AND (status <> 'failed' OR queue <> ALL ($3::text[]))
), waits AS MATERIALIZED (
    SELECT edge.waiting FROM own
     CROSS JOIN LATERAL (SELECT d.waiting FROM {schema}.dependencies d WHERE d.needs = own.command_id LIMIT $2 + 1) AS edge
     LIMIT $2 + 1
), stands AS MATERIALIZED (
    SELECT next.id FROM held
     CROSS JOIN LATERAL (
         SELECT k.id FROM {schema}.commands k
          WHERE k.status = 'waiting' AND k.needs = 0 AND k.line_at IS NULL
            AND k.queue = held.queue AND k.ordering_key = held.ordering_key AND k.id <> ALL ($1::bigint[])
          LIMIT $2 + 1) AS next
     LIMIT $2 + 1
)
SELECT (SELECT least(count(DISTINCT w.waiting), $2) FROM waits w WHERE w.waiting NOT IN (SELECT own.command_id FROM own)) AS waiting,
       (SELECT count(*) FROM waits) > $2 AS more_waiting,
       (SELECT least(count(*), $2) FROM stands) AS behind, (SELECT count(*) FROM stands) > $2 AS more_behind
