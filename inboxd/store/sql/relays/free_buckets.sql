-- End leases of buckets, at the beginning of the transaction that settles the events which were published under them.
-- FOR KEY SHARE on the worker's own row: a worker that was declared dead cannot settle.
-- parameters: $1 uuid worker, arrays, one entry a bucket: $2 text[] topics, $3 smallint[] buckets, $4 bigint[] fences
-- returns: nothing (the command tag counts the ended leases; the others were lost)
-- locks: the worker's row FOR KEY SHARE; the rows
WITH alive AS MATERIALIZED (
    SELECT id FROM {schema}.workers WHERE id = $1::uuid AND state IN ('running', 'draining') FOR KEY SHARE
)
UPDATE {schema}.relay_leases l
   SET worker_id = NULL
  FROM alive, unnest($2::text[], $3::smallint[], $4::bigint[]) AS mine(topic, bucket, fence)
 WHERE l.topic = mine.topic AND l.bucket = mine.bucket AND l.worker_id = alive.id AND l.fence = mine.fence
