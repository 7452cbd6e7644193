-- Dead letters run again in place, as if for the first time; earlier errors stay listed.
-- An event is a fact: it is not written a second time.
-- parameters: $1 bigint[] ids, $2 text actor, $3 text reason
-- returns: old_id, new_id (the same) of each row that was a dead letter
-- locks: the rows (held already)
WITH again AS (
    UPDATE {schema}.events
       SET status = 'pending', attempts = 0, crashes = 0, run_at = clock_timestamp(),
           updated_at = clock_timestamp()
     WHERE id = ANY ($1::bigint[]) AND status LIKE 'failed'
    RETURNING id
)
INSERT INTO {schema}.replays (kind, old_id, new_id, actor, reason)
SELECT 'event', id, id, $2, $3 FROM again
RETURNING old_id, new_id
