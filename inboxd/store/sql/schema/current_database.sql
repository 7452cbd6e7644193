-- The database that this session is connected to.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT current_database()
