-- Remember what the fleet serves and in which queue; sorted, since two workers that start together
-- would deadlock on each other's rows otherwise.
-- parameters: arrays: $1 text[] kinds, $2 text[] types, $3 text[] queues
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.declared_types AS old (kind, type, queue)
SELECT kind, type, queue FROM unnest($1::text[], $2::text[], $3::text[]) AS t(kind, type, queue)
 ORDER BY kind, type
ON CONFLICT (kind, type) DO UPDATE SET queue = excluded.queue, declared_at = now()
 WHERE old.queue IS DISTINCT FROM excluded.queue
