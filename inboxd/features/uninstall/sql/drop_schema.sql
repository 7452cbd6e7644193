-- Drop inboxd's schema with its contents.
-- parameters: none
-- returns: nothing
-- locks: all tables of the schema, until the transaction ends
DROP SCHEMA IF EXISTS {schema} CASCADE
