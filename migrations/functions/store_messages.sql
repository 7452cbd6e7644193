-- Store a page of messages of one source: their events, and the positions up to which their streams are stored. All, or
-- nothing.
--
-- One array a column: first those of streams, then those of events, in the order of their messages. Raises IB001 if a
-- stream's fence or stored position differs from what its reader knows: so of two readers one stores nothing, however late
-- it comes. The streams' rows stay locked until the end, so a reader that opens one of them meanwhile reads the new
-- position.
--
-- Two messages stay two events if their sender gave them the same id: if an unsettled event has the given id, the new event
-- gets its other id. If another transaction wrote that event meanwhile, the page is written again, with that event visible.
--
-- A broken message becomes a dead letter at once, whatever its topic: it is written as any other event, so that its dedup
-- key counts, and failed in the same transaction. An event that an earlier statement wrote is left as it is: it may have
-- been replayed.
--
-- A message is acknowledged after the commit: sets synchronous_commit to on for this transaction if it is weaker, and never
-- lowers it.
-- called by: the daemon
-- roles: worker
-- locks: the streams' rows; as write_events
CREATE OR REPLACE FUNCTION {schema}.store_messages(
    of_source text, streams text[], fences bigint[], befores bigint[], positions bigint[], identities text[],
    given_ids uuid[], types text[], payloads jsonb[], topics text[], ordering_keys text[], dedup_keys text[],
    tenants text[], entity_types text[], entity_ids text[], headers jsonb[], traceparents text[],
    correlation_ids text[], causation_ids uuid[], occurred_ats timestamptz[], schema_versions integer[],
    other_ids uuid[], reasons text[],
    OUT written bigint, OUT duplicates bigint, OUT contradictions bigint, OUT broken bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = on SET jit = off AS $$
#variable_conflict use_column
DECLARE
    ids       uuid[];
    swallowed boolean;
    again     boolean := false;
    tells     text := coalesce(current_setting('inboxd.webhooks', true), '');
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    FOR n IN 1 .. cardinality(streams) LOOP
        UPDATE {schema}.stream_positions
           SET position = coalesce(positions[n], position), identity = identities[n], begins = NULL,
               stored_at = clock_timestamp()
         WHERE source = of_source AND stream = streams[n] AND fence = fences[n]
           AND position IS NOT DISTINCT FROM befores[n];
        IF NOT FOUND THEN
            RAISE EXCEPTION 'lease lost: the stream % of the source % is not this reader''s any more',
                quote_literal(streams[n]), quote_literal(of_source) USING ERRCODE = 'IB001';
        END IF;
    END LOOP;
    PERFORM set_config('inboxd.webhooks', 'off', true);  -- it was not emitted (events_emitted)
    LOOP
        BEGIN
            ids := CASE WHEN other_ids IS NULL THEN given_ids ELSE ARRAY(
                SELECT CASE WHEN u.other IS NOT NULL
                             AND EXISTS (SELECT FROM {schema}.events e WHERE e.event_id BETWEEN u.given AND u.given)
                            THEN u.other ELSE u.given END
                  FROM unnest(given_ids, other_ids) WITH ORDINALITY AS u(given, other, n) ORDER BY u.n) END;
            SELECT count(*) FILTER (WHERE NOT w.duplicate), count(*) FILTER (WHERE w.duplicate),
                   count(*) FILTER (WHERE w.conflict AND NOT w.duplicate),
                   coalesce(bool_or(w.duplicate AND w.id IS NOT NULL AND w.event_id = ids[w.ordinal]
                                    AND w.event_id <> other_ids[w.ordinal]), false)
              INTO written, duplicates, contradictions, swallowed
              FROM {schema}.write_events(
                       types, payloads, topics, ids, schema_versions,
                       sources => array_fill(of_source, ARRAY[cardinality(types)]), tenants => tenants,
                       entity_types => entity_types, entity_ids => entity_ids, headers => headers,
                       correlation_ids => correlation_ids, causation_ids => causation_ids, traceparents => traceparents,
                       occurred_ats => occurred_ats, ordering_keys => ordering_keys, dedup_keys => dedup_keys) AS w;
            EXIT WHEN again OR NOT swallowed;
            RAISE EXCEPTION USING ERRCODE = 'IB009';
        EXCEPTION
            WHEN SQLSTATE 'IB009' THEN again := true;
        END;
    END LOOP;
    PERFORM set_config('inboxd.webhooks', tells, true);
    broken := 0;
    IF reasons IS NOT NULL THEN
        UPDATE {schema}.events e
           SET status = 'failed', fingerprint = 'broken:' || e.type, updated_at = clock_timestamp(),
               errors = jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'error', b.reason))
          FROM (SELECT u.id, min(u.reason) AS reason
                  FROM unnest(ids, reasons) AS u(id, reason) WHERE u.reason IS NOT NULL GROUP BY u.id) AS b
         WHERE e.event_id BETWEEN b.id AND b.id AND e.created_at >= statement_timestamp()
           AND e.status IN ('pending', 'waiting');
        GET DIAGNOSTICS broken = ROW_COUNT;
    END IF;
END
$$;
