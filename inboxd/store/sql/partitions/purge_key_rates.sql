-- Delete ordering keys of which no command has started for long.
-- parameters: $1 interval age, $2 integer rows
-- returns: how many were removed
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.key_rates
     WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM {schema}.key_rates old
                              WHERE old.next_at < now() - $1::interval ORDER BY old.next_at LIMIT $2
                                FOR UPDATE SKIP LOCKED))
    RETURNING 1)
SELECT count(*) FROM gone
