-- Look at the deliveries with a chosen message id that were not looked at for a day, oldest first, and delete the records
-- of those that have been settled for a day: history has them. In one statement: a delivery moves in one transaction, so
-- one snapshot sees it.
-- parameters: $1 integer rows
-- returns: looked (how many), removed
-- locks: the rows
WITH due AS MATERIALIZED (
    SELECT s.command_id FROM {schema}.sent_webhooks s
     WHERE s.looked_at < statement_timestamp() - interval '1 day' ORDER BY s.looked_at LIMIT $1
), needed AS MATERIALIZED (
    SELECT d.command_id FROM due d
     WHERE EXISTS (SELECT FROM {schema}.commands c WHERE c.command_id = d.command_id OFFSET 0)
        OR EXISTS (SELECT FROM {schema}.commands_history h
                    WHERE h.command_id = d.command_id AND h.finished_at >= statement_timestamp() - interval '1 day' OFFSET 0)
), kept AS (
    UPDATE {schema}.sent_webhooks s SET looked_at = statement_timestamp()
      FROM needed n WHERE s.command_id BETWEEN n.command_id AND n.command_id
), gone AS (
    DELETE FROM {schema}.sent_webhooks s USING due d
     WHERE s.command_id BETWEEN d.command_id AND d.command_id
       AND d.command_id <> ALL (ARRAY(SELECT n.command_id FROM needed n))
    RETURNING 1
)
SELECT (SELECT count(*) FROM due) AS looked, (SELECT count(*) FROM gone) AS removed
