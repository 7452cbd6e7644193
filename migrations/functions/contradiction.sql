-- The key under which a contradiction of a dedup key is recorded.
-- called by: judge_event, unwritten_event
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.contradiction(key text, saying bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT key || E'\n' || 'contradicted: ' || saying::text
$$;
