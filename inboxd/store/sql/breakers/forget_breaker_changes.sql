-- Delete changes of breakers that are older than two weeks, 10,000 at a time.
-- parameters: none
-- returns: nothing
-- locks: the rows
DELETE FROM {schema}.breaker_changes WHERE id = ANY (ARRAY(
    SELECT id FROM {schema}.breaker_changes WHERE at < statement_timestamp() - interval '14 days'
     ORDER BY at LIMIT 10000))
