-- Forget breakers that only a handler's code named, and of which nothing has changed for a week: they are closed, or
-- nobody has called them, and so nobody tried them, since their break was over.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.breakers
 WHERE mode = 'auto' AND uses = '{}' AND (open_until < statement_timestamp()) IS NOT FALSE
   AND changed_at < statement_timestamp() - interval '7 days'
