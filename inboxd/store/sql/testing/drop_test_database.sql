-- SQL that drops a database of tests, even while sessions are connected to it.
-- parameters: $1 text name
-- returns: statement (SQL)
-- locks: nothing
SELECT format('DROP DATABASE IF EXISTS %I WITH (FORCE)', $1::text) AS statement
