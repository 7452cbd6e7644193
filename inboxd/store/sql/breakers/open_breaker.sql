-- Open a breaker, if its version is unchanged; a trigger notifies workers. The first of several breaks in a row is
-- recorded for charts.
-- parameters: $1 text name, $2 bigint the known version (0: none), $3 float8 seconds of the break,
--   $4 int breaks in a row, this one included, $5 text why
-- returns: version; no row if it has changed
-- locks: the row
WITH opened AS (
    INSERT INTO {schema}.breakers AS old (name, state, opens, open_until, reason, version)
    VALUES ($1, 'open', $4, clock_timestamp() + make_interval(secs => $3), $5, $2 + 1)
        ON CONFLICT (name) DO UPDATE
       SET state = 'open', opens = excluded.opens, reason = excluded.reason, version = old.version + 1,
           open_until = clock_timestamp() + make_interval(secs => $3), probe_by = NULL, probe_until = NULL,
           changed_at = clock_timestamp()
     WHERE old.version = $2 AND old.mode = 'auto'
    RETURNING name, version
), noted AS (
    INSERT INTO {schema}.breaker_changes (name, state) SELECT name, 'open' FROM opened WHERE $4 = 1
)
SELECT version FROM opened
