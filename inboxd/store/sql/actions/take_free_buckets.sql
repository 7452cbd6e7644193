-- Lock the buckets of the lines of these events, if they are free; waits for nothing.
-- parameters: $1 bigint[] ids
-- returns: id of each event that exists and is in no line, or whose bucket was free
-- locks: those buckets, exclusively, until the transaction ends
WITH own AS MATERIALIZED (
    SELECT given.id, e.topic, e.bucket, e.mode FROM unnest($1::bigint[]) AS given(id)
     CROSS JOIN LATERAL (SELECT topic, bucket, mode FROM {schema}.events WHERE id = given.id OFFSET 0) e
), line AS MATERIALIZED (
    SELECT topic, bucket, pg_try_advisory_xact_lock(hashtext('{schema}/' || topic), bucket) AS is_free
      FROM (SELECT DISTINCT topic, bucket FROM own WHERE mode <> 'single' ORDER BY topic, bucket) each
)
SELECT own.id FROM own
 WHERE own.mode = 'single'
    OR EXISTS (SELECT FROM line WHERE line.topic = own.topic AND line.bucket = own.bucket AND line.is_free)
