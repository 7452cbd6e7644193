-- Declare announced intakes: reserve ids for them. The caller's transaction has locked their rows.
--
-- A topic's block mirrors the ids of all events that wait for it, so an event's old id gives its new one. The block begins
-- at least 1,048,576 ids before the newest one, for ids that no snapshot shows yet. An event written between this function
-- and the commit of the declaration has an id above all blocks: it keeps that id in the first of its topics, and each block
-- has room for 16,384 such events. An event that fits into no block gets a new id, behind the events written meanwhile.
-- called by: the daemon
-- roles: worker
-- locks: the reservation of ids; the intakes' rows
CREATE OR REPLACE FUNCTION {schema}.open_intakes(origins text[], types text[], topics text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    newest bigint;
    lowest bigint;
    lows   bigint[];
    drawn  record;
BEGIN
    -- Sequences ignore transactions: two sessions must not reserve ids at the same time.
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.reserve'), 0);
    newest := coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0);
    FOR n IN 1..cardinality(origins) LOOP
        lowest := NULL;
        IF EXISTS (SELECT FROM {schema}.topics t WHERE t.name = topics[n] AND t.mode <> 'single') THEN
            IF types[n] = '' THEN
                SELECT min(w.id) INTO lowest FROM (SELECT e.id FROM {schema}.events e
                    WHERE e.status = 'pending' AND e.topic = origins[n]
                    ORDER BY e.topic, e.type, e.run_at, e.id OFFSET 0) AS w;
            ELSE
                SELECT min(w.id) INTO lowest FROM (SELECT e.id FROM {schema}.events e
                    WHERE e.status = 'pending' AND e.topic = origins[n] AND e.type = types[n]
                    ORDER BY e.topic, e.type, e.run_at, e.id OFFSET 0) AS w;
            END IF;
            lowest := greatest(0, least(lowest, newest - 1048576));
        END IF;
        lows := lows || lowest;
    END LOOP;
    -- Ids that producers draw between the reading of last_value and setval are below the blocks.
    SELECT s.last_value + 16384 AS newest, setval('{schema}.events_id_seq', s.last_value + 65536 + w.width) AS last, w.width
      INTO drawn
      FROM {schema}.events_id_seq s
     CROSS JOIN LATERAL (
           SELECT sum(s.last_value + 16384 - t.low + 1 + 16384)::bigint AS width
             FROM (SELECT min(low) AS low FROM unnest(topics, lows) AS o(topic, low) GROUP BY topic) AS t) AS w
     WHERE w.width > 0;
    UPDATE {schema}.intakes i
       SET opened_at = clock_timestamp(), low = block.low, high = CASE WHEN block.low IS NOT NULL THEN drawn.newest END,
           shift = drawn.last - drawn.width + block.until - 16384 - drawn.newest,
           reserved = CASE WHEN block.low IS NOT NULL THEN drawn.last END,
           late_shift = block.until - 16384 - drawn.width
      FROM unnest(origins, types, topics) AS given(origin, type, topic)
      JOIN (SELECT t.topic, t.low,
                   sum(drawn.newest - t.low + 1 + 16384) OVER (ORDER BY t.topic) AS until
              FROM (SELECT topic, min(low) AS low FROM unnest(topics, lows) AS o(topic, low) GROUP BY topic) AS t
           ) AS block ON block.topic = given.topic
     WHERE i.origin = given.origin AND i.type = given.type AND i.topic = given.topic AND i.opened_at IS NULL;
END
$$;
