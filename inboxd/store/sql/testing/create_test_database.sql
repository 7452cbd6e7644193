-- SQL that creates a database for tests: a statement, since names cannot be parameters. Copied file by file on the tests'
-- own server: logging each page costs three times as much. On other servers a file copy would wait for a checkpoint.
-- parameters: $1 text name, $2 text the database that is copied, $3 boolean file by file
-- returns: statement (SQL)
-- locks: nothing
SELECT format('CREATE DATABASE %I TEMPLATE %I', $1::text, $2::text)
       || CASE WHEN $3::boolean THEN ' STRATEGY FILE_COPY' ELSE '' END AS statement
