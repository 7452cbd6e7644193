-- What makes a database for tests: a statement, since names are no parameters. Copied file by file where the server
-- is the tests' own: to log each page costs three times as much. Elsewhere that would wait for a checkpoint.
-- parameters: $1 text name, $2 text the database that is copied, $3 boolean file by file
-- returns: statement (SQL)
-- locks: nothing
SELECT format('CREATE DATABASE %I TEMPLATE %I', $1::text, $2::text)
       || CASE WHEN $3::boolean THEN ' STRATEGY FILE_COPY' ELSE '' END AS statement
