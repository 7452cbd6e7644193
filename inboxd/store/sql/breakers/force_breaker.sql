-- Force a breaker, or return it to its calls; a trigger notifies workers.
-- parameters: $1 text name, $2 text mode, $3 text actor, $4 text why (null: no reason), $5 text: only from this
--             mode (null: from any)
-- returns: name; no row if the breaker does not exist, has that mode already, or does not have mode $5
-- locks: the row
UPDATE {schema}.breakers
   SET mode = $2, actor = $3, forced_for = $4, version = version + 1, changed_at = clock_timestamp(),
       -- A breaker that was forced open must be probed first; any other starts closed.
       state = CASE WHEN mode = 'open' AND $2 = 'auto' THEN 'open' ELSE 'closed' END,
       open_until = CASE WHEN mode = 'open' AND $2 = 'auto' THEN clock_timestamp() END,
       opens = 0, probe_by = NULL, probe_until = NULL
 WHERE name = $1 AND mode <> $2 AND ($5::text IS NULL OR mode = $5)
RETURNING name
