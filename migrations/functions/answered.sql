-- The answers to receipts that exist; no row for those that do not.
--
-- Planned with its times as constants, so that only the partitions of those times are read.
-- called by: the daemon
-- roles: receiver, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.answered(receipt_ids uuid[])
    RETURNS TABLE (receipt_id uuid, event_ids uuid[], outcome text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT r.receipt_id, r.event_ids, r.outcome FROM {schema}.receipts r'
        ' WHERE r.received_at BETWEEN %L AND %L AND (r.received_at, r.receipt_id) IN'
        ' (SELECT {schema}.receipt_time(id), id FROM unnest($1) AS id)',
        (SELECT min({schema}.receipt_time(id)) FROM unnest(receipt_ids) AS id),
        (SELECT max({schema}.receipt_time(id)) FROM unnest(receipt_ids) AS id)) USING receipt_ids;
END
$$;
