-- Close a breaker after its probes, if nobody changed it meanwhile, and note it for charts; workers are notified by a
-- trigger.
-- parameters: $1 text name, $2 bigint the version that is known
-- returns: version; no row when somebody changed it
-- locks: the row
WITH closed AS (
    UPDATE {schema}.breakers
       SET state = 'closed', opens = 0, open_until = NULL, probe_by = NULL, probe_until = NULL, version = version + 1,
           changed_at = clock_timestamp()
     WHERE name = $1 AND version = $2 AND mode = 'auto' AND state = 'half_open'
    RETURNING name, version
), noted AS (
    INSERT INTO {schema}.breaker_changes (name, state) SELECT name, 'closed' FROM closed
)
SELECT version FROM closed
