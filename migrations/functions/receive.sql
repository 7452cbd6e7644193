-- Write a page of receipts and their events: all, or none. Returns one row per receipt, in the given order.
--
-- One array a column: first those of the receipts, then those of their events, in the order of the receipts. A receipt that
-- exists already is refused (unique_violation): `answered` returns its answer. The receipts are written last: a session
-- that writes the same receipt at the same time waits for the events of the other one first.
--
-- If a source is paused, or has held receipts, the events wait in held_receipts. A session that holds receipts has the
-- source's lock, shared, and checks again under it; the release of the last ones takes it exclusively. So no receipt stays
-- behind.
--
-- Receipts of a past day, as from a spool, are missing in the count of that day, so the day is counted again.
--
-- A receipt is durable when it is answered: if synchronous_commit is weaker than on, it is on for this transaction.
-- called by: the daemon
-- roles: receiver, worker
-- locks: as write_events; the new rows; shared, a held source; of a day that is over, its row in census
CREATE OR REPLACE FUNCTION {schema}.receive(
    receipt_ids uuid[], sources text[], bodies bytea[], content_types text[], kept_headers jsonb[], addresses text[],
    key_ids text[], holds boolean[],
    of_receipts uuid[], of_sources text[], given_ids uuid[], types text[], payloads jsonb[], topics text[],
    ordering_keys text[], dedup_keys text[], tenants text[], entity_types text[], entity_ids text[],
    headers jsonb[], traceparents text[], broken text[]
) RETURNS TABLE (receipt_id uuid, event_ids uuid[], outcome text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
    waiting text[];
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM {schema}.refuse_ragged(
        cardinality(receipt_ids), cardinality(sources), cardinality(bodies), cardinality(content_types),
        cardinality(kept_headers), cardinality(addresses), cardinality(key_ids), cardinality(holds));
    waiting := {schema}.waiting_sources(sources, holds);
    IF waiting IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.held'), hashtext(s)) FROM unnest(waiting) AS s;
        waiting := {schema}.waiting_sources(sources, holds);
    END IF;
    IF (SELECT min({schema}.receipt_time(id)) FROM unnest(receipt_ids) AS id) < date_trunc('day', now(), 'UTC') THEN
        PERFORM {schema}.begin_census(p.part, p.parent)
           FROM (SELECT e.part, e.parent FROM {schema}.every_partition e
                  WHERE e.parent = 'receipts' AND e.high <= date_trunc('day', now(), 'UTC')
                    AND EXISTS (SELECT FROM unnest(receipt_ids) AS id
                                 WHERE {schema}.receipt_time(id) >= e.low AND {schema}.receipt_time(id) < e.high)
                  ORDER BY e.part) AS p;
    END IF;
    IF waiting IS NOT NULL THEN
        INSERT INTO {schema}.held_sources (source) SELECT unnest(waiting) ON CONFLICT DO NOTHING;
        INSERT INTO {schema}.held_receipts (source, receipt_id, events)
        SELECT r.source, r.id, coalesce(e.events, '[]')
          FROM unnest(receipt_ids, sources) WITH ORDINALITY AS r(id, source, n)
          LEFT JOIN (SELECT u.receipt, jsonb_agg(to_jsonb(u) - 'receipt' - 'n' ORDER BY u.n) AS events
                       FROM unnest(of_receipts, given_ids, types, payloads::text[], topics, ordering_keys, dedup_keys,
                                   tenants, entity_types, entity_ids, headers, traceparents, broken) WITH ORDINALITY
                            AS u(receipt, event_id, type, payload, topic, ordering_key, dedup_key, tenant, entity_type,
                                 entity_id, headers, traceparent, broken, n)
                      GROUP BY u.receipt) AS e ON e.receipt = r.id
         WHERE r.source = ANY (waiting) ORDER BY r.n;
    END IF;
    RETURN QUERY
    WITH answers AS MATERIALIZED (
        SELECT w.receipt_id, w.event_ids, w.outcome, w.again
          FROM {schema}.write_received(
                   waiting, of_receipts, of_sources, given_ids, types, payloads, topics, ordering_keys, dedup_keys,
                   tenants, entity_types, entity_ids, headers, traceparents, broken) AS w
    ), given AS MATERIALIZED (
        SELECT u.*, coalesce(a.event_ids, '{}') AS event_ids, coalesce(a.again, false) AS again,
               CASE WHEN u.source = ANY (waiting) THEN 'held' ELSE coalesce(a.outcome, 'stored') END AS outcome
          FROM unnest(receipt_ids, sources, bodies, content_types, kept_headers, addresses, key_ids) WITH ORDINALITY
               AS u(receipt_id, source, body, content_type, headers, address, key_id, n)
          LEFT JOIN answers a ON a.receipt_id = u.receipt_id
    ), written AS (
        INSERT INTO {schema}.receipts
               (receipt_id, received_at, source, outcome, event_ids, body, body_bytes, content_type, headers, address,
                key_id)
        SELECT g.receipt_id, {schema}.receipt_time(g.receipt_id), g.source, g.outcome, g.event_ids,
               CASE WHEN NOT g.again THEN g.body END, octet_length(g.body), g.content_type, g.headers, g.address,
               g.key_id
          FROM given g ORDER BY g.receipt_id
    )
    SELECT g.receipt_id, g.event_ids, g.outcome FROM given g ORDER BY g.n;
END
$$;
