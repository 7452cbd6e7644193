-- When a receipt was received: the milliseconds at the start of its id (RFC 9562, version 7). Inlined.
-- called by: answered, erase_receipts, keep_receipts, make_receipt_days, receive, release_receipts, write_received,
--   the daemon
-- roles: operator, viewer, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.receipt_time(receipt_id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.to_timestamp(
               ('x' || pg_catalog.translate(pg_catalog.left(receipt_id::text, 13), '-', ''))::bit(48)::bigint::numeric / 1000.0)
$$;
