-- What lets the sessions of a database go by the clock of tests. Last but one: what somebody creates without a schema
-- goes to the first of them.
-- parameters: $1 text name of the database
-- returns: statement (SQL)
-- locks: nothing
SELECT format('ALTER DATABASE %I SET search_path = "$user", public, inboxd_clock, pg_catalog', $1::text) AS statement
