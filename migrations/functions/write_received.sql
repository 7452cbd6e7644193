-- Write the events of receipts. Returns, for each receipt that has events: their ids, the outcome, and whether all of them
-- existed already. Events of waiting sources are not written; their ids are returned.
--
-- A broken event becomes a dead letter at once, whatever its topic: it is written as any other event, so that its dedup key
-- counts, and failed in the same transaction. Like an event that contradicts a dedup key, it stands in no line until it is
-- replayed.
-- called by: receive, release_receipts
-- roles: none
-- locks: as write_events
CREATE OR REPLACE FUNCTION {schema}.write_received(
    waiting text[], of_receipts uuid[], of_sources text[], given_ids uuid[], types text[], payloads jsonb[],
    topics text[], ordering_keys text[], dedup_keys text[], tenants text[], entity_types text[], entity_ids text[],
    headers jsonb[], traceparents text[], broken text[]
) RETURNS TABLE (receipt_id uuid, event_ids uuid[], outcome text, again boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = on SET jit = off AS $$
#variable_conflict use_column
DECLARE
    longest    integer := (SELECT max(octet_length(t)) FROM unnest(tenants) AS t);
    written    uuid[];
    duplicates boolean[];
    conflicts  boolean[];
    tells      text := coalesce(current_setting('inboxd.webhooks', true), '');
BEGIN
    -- Events with an origin pass fewer checks of lengths (events_above_text), so check the tenant here.
    IF longest > 255 THEN
        PERFORM {schema}.refuse_bytes('tenant', longest);
    END IF;
    IF waiting IS NOT NULL THEN
        RETURN QUERY
        SELECT u.receipt, array_agg(u.id ORDER BY u.n), 'held', false
          FROM (SELECT e.receipt, e.id, min(e.n) AS n
                  FROM unnest(of_receipts, of_sources, given_ids) WITH ORDINALITY AS e(receipt, source, id, n)
                 WHERE e.source = ANY (waiting) GROUP BY e.receipt, e.id) AS u
         GROUP BY u.receipt;
        SELECT array_agg(u.receipt ORDER BY u.n), array_agg(u.source ORDER BY u.n), array_agg(u.id ORDER BY u.n),
               array_agg(u.type ORDER BY u.n), array_agg(u.payload ORDER BY u.n), array_agg(u.topic ORDER BY u.n),
               array_agg(u.ordering_key ORDER BY u.n), array_agg(u.dedup_key ORDER BY u.n),
               array_agg(u.tenant ORDER BY u.n), array_agg(u.entity_type ORDER BY u.n),
               array_agg(u.entity_id ORDER BY u.n), array_agg(u.headers ORDER BY u.n),
               array_agg(u.traceparent ORDER BY u.n), array_agg(u.broken ORDER BY u.n)
          INTO of_receipts, of_sources, given_ids, types, payloads, topics, ordering_keys, dedup_keys, tenants,
               entity_types, entity_ids, headers, traceparents, broken
          FROM unnest(of_receipts, of_sources, given_ids, types, payloads, topics, ordering_keys, dedup_keys, tenants,
                      entity_types, entity_ids, headers, traceparents, broken) WITH ORDINALITY
               AS u(receipt, source, id, type, payload, topic, ordering_key, dedup_key, tenant, entity_type, entity_id,
                    headers, traceparent, broken, n)
         WHERE u.source <> ALL (waiting);
    END IF;
    IF types IS NULL OR types = '{}' THEN
        RETURN;
    END IF;
    PERFORM set_config('inboxd.webhooks', 'off', true);  -- it was not emitted (events_emitted)
    SELECT array_agg(w.event_id ORDER BY w.ordinal), array_agg(w.duplicate ORDER BY w.ordinal),
           array_agg(w.conflict ORDER BY w.ordinal)
      INTO written, duplicates, conflicts
      FROM {schema}.write_events(
               types, payloads, topics, given_ids, sources => of_sources, tenants => tenants,
               entity_types => entity_types, entity_ids => entity_ids, headers => headers,
               correlation_ids => of_receipts::text[], causation_ids => of_receipts, traceparents => traceparents,
               occurred_ats => ARRAY(SELECT {schema}.receipt_time(u.id)
                                       FROM unnest(of_receipts) WITH ORDINALITY AS u(id, n) ORDER BY u.n),
               ordering_keys => ordering_keys, dedup_keys => dedup_keys,
               origin_kinds => array_fill('receipt'::text, ARRAY[cardinality(types)])) AS w;
    PERFORM set_config('inboxd.webhooks', tells, true);
    IF broken IS NOT NULL THEN
        UPDATE {schema}.events e
           SET status = 'failed', fingerprint = 'broken:' || e.type, updated_at = clock_timestamp(),
               errors = jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'error', b.reason))
          FROM (SELECT u.id, min(u.receipt::text)::uuid AS receipt, min(u.reason) AS reason
                  FROM unnest(written, of_receipts, broken) AS u(id, receipt, reason)
                 WHERE u.reason IS NOT NULL GROUP BY u.id) AS b
         WHERE e.event_id BETWEEN b.id AND b.id AND e.causation_id IS NOT DISTINCT FROM b.receipt
           AND e.status IN ('pending', 'waiting');
    END IF;
    RETURN QUERY
    SELECT u.receipt, array_agg(u.id ORDER BY u.n),
           CASE WHEN bool_or(u.conflict) THEN 'contradiction'
                WHEN bool_or(u.broken) THEN 'broken'
                WHEN bool_and(u.again) THEN 'duplicate'
                ELSE 'stored' END,
           bool_and(u.again)
      FROM (SELECT e.receipt, e.id, min(e.n) AS n, bool_or(e.conflict) AS conflict, bool_and(e.again) AS again,
                   bool_or(e.broken IS NOT NULL AND NOT e.again) AS broken
              FROM unnest(of_receipts, written, duplicates, conflicts, broken) WITH ORDINALITY
                   AS e(receipt, id, again, conflict, broken, n) GROUP BY e.receipt, e.id) AS u
     GROUP BY u.receipt;
END
$$;
