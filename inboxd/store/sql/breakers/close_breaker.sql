-- Close a breaker after its probes, if its version is unchanged, and record the change for charts; a trigger notifies
-- workers.
-- parameters: $1 text name, $2 bigint the known version
-- returns: version; no row if it has changed
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
