-- Forget breakers that only a handler's code named, and that have been closed for a week.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.breakers
 WHERE mode = 'auto' AND state = 'closed' AND uses = '{}'
   AND changed_at < statement_timestamp() - interval '7 days'
