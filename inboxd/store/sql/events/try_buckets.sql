-- Lock the buckets of lines for this transaction, if they are free. Their rows must be read by a later statement: only its
-- snapshot shows the changes of the last holder.
-- parameters: arrays, one entry a bucket: $1 text[] topics, $2 smallint[] buckets; then $3 integer most buckets
--             to lock
-- returns: lane (its position in the arrays, from 1) of each locked one
-- locks: those buckets, exclusively, until the transaction ends
SELECT line.lane
  FROM unnest($1::text[], $2::smallint[]) WITH ORDINALITY AS line(topic, bucket, lane)
 WHERE pg_try_advisory_xact_lock(hashtext('{schema}/' || line.topic), line.bucket)
 LIMIT $3
