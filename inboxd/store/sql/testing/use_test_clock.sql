-- SQL that makes the sessions of a database use the tests' clock. Its schema is the last but one: objects that are created
-- without a schema go to the first.
-- parameters: $1 text name of the database
-- returns: statement (SQL)
-- locks: nothing
SELECT format('ALTER DATABASE %I SET search_path = "$user", public, inboxd_clock, pg_catalog', $1::text) AS statement
