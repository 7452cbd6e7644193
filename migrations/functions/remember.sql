-- Record a dedup key.
--
-- first_event: the event that has the key already, NULL if this is the first; conflict: whether its contents differ.
-- called by: judge_event
-- roles: none
-- locks: the record, for which it waits
CREATE OR REPLACE FUNCTION {schema}.remember(
    of_topic text, of_source text, with_key text, as_event uuid, saying bigint,
    OUT first_event uuid, OUT conflict boolean
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    LOOP
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        VALUES (of_topic, coalesce(of_source, ''), with_key, as_event, saying)
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT d.event_id, coalesce(d.body_hash <> saying, false) INTO first_event, conflict
          FROM {schema}.dedup d
         WHERE d.topic = of_topic AND d.source = coalesce(of_source, '') AND d.key = with_key;
        EXIT WHEN FOUND;  -- or it was purged at this very moment
    END LOOP;
END
$$;
