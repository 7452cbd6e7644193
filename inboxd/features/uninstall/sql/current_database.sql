-- The database of this session.
-- parameters: none
-- returns: name
-- locks: nothing
SELECT current_database()
