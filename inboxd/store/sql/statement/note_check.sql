-- Record that statements were checked, and in which database.
-- parameters: $1 timestamptz, $2 text database, $3 bigint timeline (both as the function state_of_database returns them)
-- returns: nothing
-- locks: the row
INSERT INTO {schema}.statement_checks (checked_at, database, timeline) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET checked_at = excluded.checked_at, database = excluded.database, timeline = excluded.timeline
