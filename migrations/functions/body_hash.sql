-- The content of an event as a number, by which a duplicate with its dedup key is told apart from a contradiction.
--
-- jsonb has one text for each value; the hash is not secret, and protects only against honest senders' mistakes.
-- called by: accept_event, judge_event, take_events, unwritten_event, write_events
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.body_hash(type text, schema_version integer, payload jsonb) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.hashtextextended((type || ' ' || schema_version::text || ' ' || payload::text) COLLATE "C", 0::bigint)
$$;
