-- Take inboxd's schema out of the database, with all that is in it.
-- parameters: none
-- returns: nothing
-- locks: all tables of the schema, until the transaction ends
DROP SCHEMA IF EXISTS {schema} CASCADE
