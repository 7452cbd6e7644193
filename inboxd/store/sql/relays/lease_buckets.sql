-- Lease free buckets of relays' topics for a live worker, each with the next fence. Their events must be read by a later
-- statement, as after try_buckets.sql.
-- FOR KEY SHARE on the worker's own row: this lease cannot commit after the worker was declared dead.
-- parameters: $1 uuid worker, arrays, one entry a bucket: $2 text[] topics, $3 smallint[] buckets (none that the worker
--             knows it has: one that it has without knowing is leased again); $4 integer most buckets to lease
-- returns: topic, bucket, fence of each leased one
-- locks: the worker's row FOR KEY SHARE; the buckets, exclusively, until the transaction ends; the rows
WITH alive AS MATERIALIZED (
    SELECT id FROM {schema}.workers WHERE id = $1::uuid AND state = 'running' FOR KEY SHARE
), free AS MATERIALIZED (
    SELECT b.topic, b.bucket, b.n
      FROM alive
     CROSS JOIN unnest($2::text[], $3::smallint[]) WITH ORDINALITY AS b(topic, bucket, n)
     WHERE NOT EXISTS (SELECT FROM {schema}.relay_leases l
                         JOIN {schema}.workers w ON w.id = l.worker_id
                        WHERE l.topic = b.topic AND l.bucket = b.bucket
                          AND l.worker_id <> $1::uuid AND w.state IN ('running', 'draining'))
     ORDER BY b.n
), taken AS MATERIALIZED (
    SELECT f.topic, f.bucket
      FROM free f
     WHERE pg_try_advisory_xact_lock(hashtext('{schema}/' || f.topic), f.bucket)
     LIMIT $4
)
INSERT INTO {schema}.relay_leases AS l (topic, bucket, worker_id)
SELECT topic, bucket, $1::uuid FROM taken
ON CONFLICT (topic, bucket) DO UPDATE
   SET worker_id = $1::uuid, fence = l.fence + 1, taken_at = clock_timestamp()
 WHERE l.worker_id IS NULL OR l.worker_id = $1::uuid
    OR (l.taken_at < statement_timestamp() -- a worker that came later is not seen
        AND NOT EXISTS (SELECT FROM {schema}.workers w
                         WHERE w.id = l.worker_id AND w.state IN ('running', 'draining')))
RETURNING topic, bucket, fence
