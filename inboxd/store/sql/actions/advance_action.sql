-- Record a bulk action's progress, in the transaction that changes the rows.
-- parameters: $1 bigint id, $2 text status, $3 bigint last finished id, $4 integer rows done, $5 integer rows left out,
--             $6 bigint[] further canary rows, $7 interval until it goes on, from $8 timestamptz, $9 text note (the reason,
--             if it is paused by this), $10 bigint[] rows that are passed over
-- returns: nothing
-- locks: its row (held already)
UPDATE {schema}.actions
   SET status = $2, above = $3, passed_ids = $10::bigint[], done = done + $4, left_out = left_out + $5, canary_ids = canary_ids || $6::bigint[],
       next_at = $8::timestamptz + $7::interval, note = $9, failures = 0, began_at = coalesce(began_at, clock_timestamp()),
       goes_on_as = CASE $2 WHEN 'paused' THEN 'running' END,
       ended_at = CASE $2 WHEN 'completed' THEN clock_timestamp() END
 WHERE id = $1
