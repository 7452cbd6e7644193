-- Forget that breakers opened and closed more than two weeks ago, some thousand at a time.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.breaker_changes WHERE id = ANY (ARRAY(
    SELECT id FROM {schema}.breaker_changes WHERE at < statement_timestamp() - interval '14 days'
     ORDER BY at LIMIT 10000))
