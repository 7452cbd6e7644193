-- Take the buckets of lines for this transaction, as far as nobody else has them. What is in them must be
-- read by a later statement: only its snapshot shows what the one who had them before has done.
-- parameters: arrays, one entry a bucket: $1 text[] topics, $2 smallint[] buckets; then $3 integer: as soon
--             as so many were taken, the rest is left alone
-- returns: lane (its position in the arrays, from 1) of those that were taken
-- locks: those buckets, exclusively, until the transaction ends
SELECT line.lane
  FROM unnest($1::text[], $2::smallint[]) WITH ORDINALITY AS line(topic, bucket, lane)
 WHERE pg_try_advisory_xact_lock(hashtext('{schema}/' || line.topic), line.bucket)
 LIMIT $3
