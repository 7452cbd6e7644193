-- Replace the payload of a command that no worker has run yet. A function, so that a worker needs no privilege to change
-- payloads. Returns its id, or null for any other row.
--
-- The payload stays in the row, however large it is: slower, but safe.
-- called by: the daemon
-- roles: worker
-- locks: the row
CREATE OR REPLACE FUNCTION {schema}.edit_payload(id bigint, payload jsonb) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    UPDATE {schema}.commands c
       SET payload = $2, body_id = NULL, body_at = NULL, body_bytes = NULL, updated_at = clock_timestamp()
     WHERE c.id = $1 AND c.status IN ('pending', 'waiting') AND c.fence = 0 AND c.attempts = 0 AND c.crashes = 0
    RETURNING c.id
$$;
