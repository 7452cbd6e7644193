-- Decide about an event whose dedup key could not be recorded at once.
--
-- 'again': the event is not written. 'contradiction': its contents differ from those of first_event, which has the key; the
-- caller writes it as a dead letter, but if an event with its event_id is unsettled, the verdict is 'again', with a
-- warning. 'first': the key was purged at this moment. A contradiction is recorded in dedup too, under a key made of its
-- contents: so the same contradiction becomes one dead letter within the window of its key, however often it is sent.
-- called by: accept_event, take_events
-- roles: none
-- locks: its records in dedup, for which it waits; the new line of duplicates
CREATE OR REPLACE FUNCTION {schema}.judge_event(given {schema}.events, OUT verdict text, OUT first_event uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    says      bigint := {schema}.body_hash(given.type, given.schema_version, given.payload);
    but       text := {schema}.contradiction(given.dedup_key, says);
    conflict  boolean;
    unsettled boolean;
    letter    uuid;  -- the dead letter that said the same
BEGIN
    SELECT r.first_event, r.conflict INTO first_event, conflict
      FROM {schema}.remember(given.topic, given.source, given.dedup_key, given.event_id, says) AS r;
    IF first_event IS NULL THEN
        verdict := 'first';
        RETURN;
    END IF;
    IF conflict THEN
        unsettled := EXISTS (SELECT FROM {schema}.events e
                              WHERE e.event_id = given.event_id AND e.topic = given.topic);
        IF unsettled THEN
            SELECT d.event_id INTO letter FROM {schema}.dedup d
             WHERE d.topic = given.topic AND d.source = coalesce(given.source, '') AND d.key = but;
        ELSE
            SELECT r.first_event INTO letter
              FROM {schema}.remember(given.topic, given.source, but, given.event_id, says) AS r;
        END IF;
        conflict := letter IS NULL;
    END IF;
    verdict := CASE WHEN conflict AND NOT unsettled THEN 'contradiction' ELSE 'again' END;
    INSERT INTO {schema}.duplicates (topic, source, key, type, event_id, first_event, conflict)
    VALUES (given.topic, coalesce(given.source, ''), given.dedup_key, given.type, given.event_id,
            coalesce(letter, first_event), conflict);
    IF conflict THEN
        RAISE WARNING 'the dedup key % of the topic % belongs to event %, which has other content',
            quote_literal(given.dedup_key), quote_literal(given.topic), first_event
            USING ERRCODE = 'IB008', HINT = CASE verdict
                WHEN 'again' THEN 'Nothing is written: an event with this event_id is unsettled.'
                ELSE 'The event is kept as a dead letter: dismiss or replay it.' END;
    END IF;
END
$$;
