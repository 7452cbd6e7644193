-- Copy a day's receipts that have unsettled events to kept_receipts, before the day's partition is dropped; and delete
-- copies whose events have all been settled. Returns how many were copied.
--
-- An event names its receipt as causation_id, and a receipt's id contains its time: so the index of causation ids finds the
-- events of a day's receipts.
-- called by: the daemon
-- roles: worker
-- locks: the copies
CREATE OR REPLACE FUNCTION {schema}.keep_receipts(first timestamptz, past timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    low    uuid := rpad(lpad(to_hex((extract(epoch FROM first) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
    high   uuid := rpad(lpad(to_hex((extract(epoch FROM past) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
    copied bigint;
BEGIN
    DELETE FROM {schema}.kept_receipts k
     WHERE NOT EXISTS (SELECT FROM {schema}.events e WHERE e.causation_id = k.receipt_id OFFSET 0)
       AND NOT EXISTS (SELECT FROM {schema}.held_receipts h WHERE h.receipt_id = k.receipt_id OFFSET 0);
    EXECUTE format(
        'INSERT INTO {schema}.kept_receipts (receipt_id, received_at, source, outcome, event_ids, body, body_bytes,'
        '                                    content_type, headers, address, key_id, stored_at)'
        ' SELECT r.receipt_id, r.received_at, r.source, r.outcome, r.event_ids, r.body, r.body_bytes, r.content_type,'
        '        r.headers, r.address, r.key_id, r.stored_at FROM (SELECT e.causation_id AS id FROM {schema}.events e'
        '                   WHERE e.causation_id >= $1 AND e.causation_id < $2 AND e.origin_kind = ''receipt'''
        '                   UNION'
        '                  SELECT h.receipt_id FROM {schema}.held_receipts h'
        '                   WHERE h.receipt_id >= $1 AND h.receipt_id < $2) AS needed'
        '  CROSS JOIN LATERAL (SELECT * FROM {schema}.receipts r WHERE r.received_at >= %L AND r.received_at < %L'
        '                         AND r.received_at = {schema}.receipt_time(needed.id) AND r.receipt_id = needed.id) r'
        ' ON CONFLICT DO NOTHING', first, past) USING low, high;
    GET DIAGNOSTICS copied = ROW_COUNT;
    RETURN copied;
END
$$;
