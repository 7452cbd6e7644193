-- The functions that were made and still exist, with the checksum of their last text.
-- parameters: none
-- returns: name, checksum
-- locks: nothing
SELECT f.name, f.checksum FROM {schema}.schema_functions f
 WHERE EXISTS (SELECT FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace AND proname = f.name)
