-- Write the events of one page of a source's held receipts, the oldest first. released: how many receipts; last: the
-- position of the last one; more: others may still be held; busy: another session releases this source.
--
-- A page has at most `most` receipts and ends with the one that has its 5,000th event: 500 arrays of a thousand events each
-- would exceed the statement timeout again and again.
--
-- The last page is released under the source's lock: a session that holds more receipts has committed, or waits and then
-- checks again. That page begins at position 0, so it has receipts that earlier pages missed because they committed late.
-- called by: the daemon
-- roles: operator, worker
-- locks: the source's release; for the last page, its receivers; as write_events
CREATE OR REPLACE FUNCTION {schema}.release_receipts(
    of_source text, past bigint, most integer,
    OUT released integer, OUT last bigint, OUT more boolean, OUT busy boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = on SET jit = off AS $$
DECLARE
    places  bigint[];
    whole   boolean;  -- whether no other receipt waits
    changed record;
BEGIN
    released := 0;
    last := past;
    more := false;
    busy := NOT pg_try_advisory_xact_lock(hashtext('{schema}.releasing'), hashtext(of_source));
    IF busy OR EXISTS (SELECT FROM {schema}.controls c WHERE c.kind = 'source' AND c.name = of_source) THEN
        RETURN;
    END IF;
    SELECT p.places, p.whole INTO places, whole FROM {schema}.page_of_held(of_source, past, most) AS p;
    IF whole THEN
        PERFORM pg_advisory_xact_lock(hashtext('{schema}.held'), hashtext(of_source));
        SELECT p.places, p.whole INTO places, whole FROM {schema}.page_of_held(of_source, 0, most) AS p;
        IF whole THEN
            DELETE FROM {schema}.held_sources h WHERE h.source = of_source;
        END IF;
    END IF;
    more := NOT whole;
    released := cardinality(places);
    last := coalesce(places[released], past);
    FOR changed IN
        SELECT w.receipt_id, w.event_ids, w.outcome
          FROM (SELECT array_agg(d.receipt_id ORDER BY d.n) AS receipts, array_agg(d.source ORDER BY d.n) AS sources,
                       array_agg(d.event_id ORDER BY d.n) AS ids, array_agg(d.type ORDER BY d.n) AS types,
                       array_agg(d.payload::jsonb ORDER BY d.n) AS payloads, array_agg(d.topic ORDER BY d.n) AS topics,
                       array_agg(d.ordering_key ORDER BY d.n) AS ordering_keys,
                       array_agg(d.dedup_key ORDER BY d.n) AS dedup_keys, array_agg(d.tenant ORDER BY d.n) AS tenants,
                       array_agg(d.entity_type ORDER BY d.n) AS entity_types,
                       array_agg(d.entity_id ORDER BY d.n) AS entity_ids, array_agg(d.headers ORDER BY d.n) AS headers,
                       array_agg(d.traceparent ORDER BY d.n) AS traceparents, array_agg(d.broken ORDER BY d.n) AS broken
                  FROM (SELECT h.receipt_id, h.source, e.*, row_number() OVER (ORDER BY h.position, e.ordinal) AS n
                          FROM {schema}.held_receipts h
                         CROSS JOIN LATERAL ROWS FROM (jsonb_to_recordset(h.events) AS (
                                   event_id uuid, type text, payload text, topic text, ordering_key text,
                                   dedup_key text, tenant text, entity_type text, entity_id text, headers jsonb,
                                   traceparent text, broken text)) WITH ORDINALITY
                               AS e(event_id, type, payload, topic, ordering_key, dedup_key, tenant, entity_type,
                                    entity_id, headers, traceparent, broken, ordinal)
                         WHERE h.source = of_source AND h.position BETWEEN places[1] AND last
                           AND h.position = ANY (places)) AS d) AS p
         CROSS JOIN LATERAL {schema}.write_received(
                   NULL, p.receipts, p.sources, p.ids, p.types, p.payloads, p.topics, p.ordering_keys, p.dedup_keys,
                   p.tenants, p.entity_types, p.entity_ids, p.headers, p.traceparents, p.broken) AS w
         WHERE w.outcome <> 'stored'
    LOOP
        EXECUTE format('UPDATE {schema}.receipts SET outcome = $1, event_ids = $2'
                       ' WHERE receipt_id = $3 AND received_at = %L', {schema}.receipt_time(changed.receipt_id))
          USING changed.outcome, changed.event_ids, changed.receipt_id;
    END LOOP;
    DELETE FROM {schema}.held_receipts h
     WHERE h.source = of_source AND h.position BETWEEN places[1] AND last AND h.position = ANY (places);
END
$$;
