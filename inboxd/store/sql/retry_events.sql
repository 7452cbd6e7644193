-- Dead letters run again, as if for the first time; what went wrong before stays listed.
-- parameters: $1 bigint[] ids
-- returns: id of each row that was one
-- locks: the rows (held already)
UPDATE {schema}.events
   SET status = 'pending', attempts = 0, crashes = 0, run_at = clock_timestamp(),
       updated_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status = 'failed'
RETURNING id
