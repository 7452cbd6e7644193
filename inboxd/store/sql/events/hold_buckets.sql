-- Lock the buckets of lines for this transaction, waiting for other holders; in one order, so that two transactions do
-- not wait for each other. A later statement must read their rows, as with try_buckets.sql.
-- parameters: arrays, one entry a bucket: $1 text[] topics, $2 smallint[] buckets
-- returns: a row for each
-- locks: those buckets, exclusively, until the transaction ends
SELECT pg_advisory_xact_lock(hashtext('{schema}/' || line.topic), line.bucket)
  FROM (SELECT DISTINCT topic, bucket FROM unnest($1::text[], $2::smallint[]) AS given(topic, bucket)
         ORDER BY topic, bucket) line
