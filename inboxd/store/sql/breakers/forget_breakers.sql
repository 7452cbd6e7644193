-- Delete breakers that no worker declared and that have not changed for a week: they are closed, or nothing has called
-- them since their break ended.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.breakers
 WHERE mode = 'auto' AND uses = '{}' AND (open_until < statement_timestamp()) IS NOT FALSE
   AND changed_at < statement_timestamp() - interval '7 days'
