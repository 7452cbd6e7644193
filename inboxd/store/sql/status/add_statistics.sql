-- Add what a worker counted since it last wrote to the statistics per minute.
-- parameters: $1 uuid worker, arrays: $2 timestamptz[] minutes, $3 text[] kinds, $4 text[] types,
--             $5 text[] outcomes, $6 bigint[] counts, $7 double precision[] total seconds,
--             $8 double precision[] maximum seconds
-- returns: nothing
-- locks: the rows, which are this worker's own
INSERT INTO {schema}.stats AS old (minute, worker_id, kind, type, outcome, count, total, maximum)
SELECT minute, $1::uuid, kind, type, outcome, count, total, maximum
  FROM unnest($2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::bigint[],
              $7::double precision[], $8::double precision[])
       AS t(minute, kind, type, outcome, count, total, maximum)
ON CONFLICT (minute, worker_id, kind, type, outcome) DO UPDATE
   SET count = old.count + excluded.count, total = old.total + excluded.total,
       maximum = greatest(old.maximum, excluded.maximum)
