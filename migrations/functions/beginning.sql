-- The first 2,000 characters of a text that is longer than producers may write; a shorter text in full. Inlined.
-- called by: the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.beginning(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN pg_catalog.octet_length(given) <= 2000 THEN given ELSE pg_catalog.left(given, 2000) END
$$;
