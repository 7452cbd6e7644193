-- Replace the payload of a command that this transaction has made as a replay, before other sessions see it. Returns its
-- id, or NULL for any other row. A function, so that a worker needs no privilege to change payloads.
--
-- The payload stays in the row, however large it is: slower, but not lost.
-- called by: the daemon
-- roles: worker
-- locks: the row
CREATE OR REPLACE FUNCTION {schema}.replace_payload(id bigint, payload jsonb) RETURNS bigint
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    UPDATE {schema}.commands c SET payload = $2, body_id = NULL, body_at = NULL, body_bytes = NULL
     WHERE c.id = $1 AND c.replay_of IS NOT NULL AND c.attempts = 0 AND c.created_at >= transaction_timestamp()
    RETURNING c.id
$$;
