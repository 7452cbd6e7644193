-- Delete the reports of workers that are gone, so that the table stays small.
-- parameters: none
-- returns: nothing (the command tag counts the rows)
-- locks: the rows
DELETE FROM {schema}.message_readers r
 WHERE NOT EXISTS (SELECT FROM {schema}.workers w WHERE w.id = r.worker_id AND w.state IN ('running', 'draining'))
