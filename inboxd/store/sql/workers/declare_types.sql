-- Remember what the fleet serves, in which queue and by which retry rules; sorted, since two workers that
-- start together would deadlock on each other's rows otherwise.
-- parameters: arrays: $1 text[] kinds, $2 text[] types, $3 text[] queues, $4 text[] retry rules (JSON)
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.declared_types AS old (kind, type, queue, retry)
SELECT kind, type, queue, retry::jsonb
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS t(kind, type, queue, retry)
 ORDER BY kind, type
ON CONFLICT (kind, type) DO UPDATE
   SET queue = excluded.queue, retry = excluded.retry, declared_at = now()
 WHERE (old.queue, old.retry) IS DISTINCT FROM (excluded.queue, excluded.retry)
