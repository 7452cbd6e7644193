-- The dedup key of an event by its topic's declaration, if its producer gave none. A long one is stored as its hash.
-- called by: accept_event, take_events, unwritten_event, write_events
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.declared_key(dedup_path text[], event_id uuid, payload jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN dedup_path IS NULL THEN NULL
                WHEN dedup_path OPERATOR(pg_catalog.=) '{}'::text[] THEN event_id::text
                WHEN pg_catalog.octet_length(payload #>> dedup_path) > 255
                THEN pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(payload #>> dedup_path, 'UTF8')), 'hex')
                ELSE nullif(payload #>> dedup_path, '') END
$$;
