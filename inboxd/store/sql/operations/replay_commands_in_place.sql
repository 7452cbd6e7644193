-- Dead letters with an ordering key run again in place, which keeps their position in the line; as if for the first time,
-- but earlier errors stay listed. A time by which it should have started is removed if it has passed. A row whose unique
-- key another unsettled command holds, or whose batch was cancelled, is left alone.
-- parameters: $1 bigint[] ids, $2 text actor, $3 text reason
-- returns: old_id, new_id (the same) of each row that was a dead letter with an ordering key
-- locks: the rows (held already)
WITH able AS (
    SELECT DISTINCT ON (c.type, c.unique_key, CASE WHEN c.unique_key IS NULL THEN c.id END) c.id
      FROM {schema}.commands c
     WHERE c.id = ANY ($1::bigint[]) AND c.status LIKE 'failed' AND c.ordering_key IS NOT NULL
       AND (SELECT o.id FROM {schema}.commands o  -- a probe for each, never a join
             WHERE o.type = c.type AND o.unique_key = c.unique_key AND o.status <> 'failed' LIMIT 1) IS NULL
       AND (SELECT b.ending FROM {schema}.batches b WHERE b.id = c.batch_id) IS NULL
     ORDER BY c.type, c.unique_key, CASE WHEN c.unique_key IS NULL THEN c.id END, c.id
), again AS (
    UPDATE {schema}.commands
       SET status = 'pending', attempts = 0, crashes = 0, cancel_requested = false,
           run_at = clock_timestamp(), updated_at = clock_timestamp(),
           {each passing command: NAME = CASE WHEN NAME > clock_timestamp() THEN NAME END}
     WHERE id = ANY (ARRAY(SELECT able.id FROM able)) AND status LIKE 'failed'
    RETURNING id
)
INSERT INTO {schema}.replays (kind, old_id, new_id, actor, reason)
SELECT 'command', id, id, $2, $3 FROM again
RETURNING old_id, new_id
