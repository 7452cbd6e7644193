-- The errors that a contradiction has as a dead letter.
-- called by: accept_event, take_events
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.dedup_conflict(key text, first_event uuid) RETURNS jsonb
    LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object('at', clock_timestamp(), 'error', pg_catalog.format(
        'DedupConflict: the dedup key %L belongs to event %s, which has other content: dismiss this one, '
        'or replay it, so that it is processed too', key, first_event)))
$$;
