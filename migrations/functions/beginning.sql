-- The beginning of a text that no producer may write any more, in full where it is short. Inlined.
-- called by: the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.beginning(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.octet_length(given) <= 2000 THEN given ELSE pg_catalog.left(given, 2000) END
$$;
