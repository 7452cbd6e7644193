-- The functions, with a fingerprint of their bodies.
-- parameters: none
-- returns: name (with its arguments), text, body (MD5 of the source)
-- locks: nothing
SELECT p.oid::regprocedure::text AS name,
       '  returns ' || pg_get_function_result(p.oid)
           || CASE WHEN prosecdef THEN ' security definer' ELSE '' END
           || coalesce(' ' || array_to_string(proconfig, ' '), '') AS text,
       md5(prosrc) AS body
  FROM pg_proc p WHERE pronamespace = '{schema}'::regnamespace ORDER BY 1
