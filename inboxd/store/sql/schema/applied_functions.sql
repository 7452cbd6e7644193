-- The functions that were made and are still there, by the text that was made last.
-- parameters: none
-- returns: name, checksum
-- locks: nothing
SELECT f.name, f.checksum FROM {schema}.schema_functions f
 WHERE EXISTS (SELECT FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace AND proname = f.name)
