-- The bucket of an ordering key in a topic; each topic has 64 buckets.
-- called by: accept_event, take_events
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.bucket_of(topic text, key text) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (pg_catalog.hashtext(topic || ' ' || key) & 63)::smallint
$$;
