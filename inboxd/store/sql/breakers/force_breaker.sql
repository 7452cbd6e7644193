-- Force a breaker, or leave it to its calls again; workers are notified by a trigger.
-- parameters: $1 text name, $2 text mode, $3 text actor, $4 text why (null: no reason), $5 text: only from this
--             mode (null: from any)
-- returns: name; no row when there is no such breaker, or it is in that mode already, or not in the one it was to be in
-- locks: the row
UPDATE {schema}.breakers
   SET mode = $2, actor = $3, forced_for = $4, version = version + 1, changed_at = clock_timestamp(),
       -- What was forced open is probed first; otherwise it begins anew.
       state = CASE WHEN mode = 'open' AND $2 = 'auto' THEN 'open' ELSE 'closed' END,
       open_until = CASE WHEN mode = 'open' AND $2 = 'auto' THEN clock_timestamp() END,
       opens = 0, probe_by = NULL, probe_until = NULL
 WHERE name = $1 AND mode <> $2 AND ($5::text IS NULL OR mode = $5)
RETURNING name
