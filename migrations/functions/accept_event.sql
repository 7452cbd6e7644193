-- Accept or refuse an inserted event (IB007: its topic has another mode): fill in columns from the declarations, record its
-- dedup key, draw its id.
--
-- bucket is NULL until this has happened, and 0 for single events; producers may not write it. It is -1 if write_events has
-- recorded the key already. The topics after the first get copies.
--
-- If another event has the key and the same content, the row is not written. If that event has other content, one of the
-- senders is wrong, and nothing is dropped silently: the row becomes a dead letter at once, which an operator may dismiss,
-- or replay to have it processed after all.
--
-- An event of a line draws its id under shared locks on its topic and then on its bucket, held until its transaction ends.
-- No code takes them exclusively, so producers never wait for each other; workers see in pg_locks which transactions may
-- still commit events, and in which topics, and do not pass them.
-- called by: trigger events_accept
-- roles: none
-- locks: shared, the order of ids in the topic and in the bucket; its record in dedup, for which it waits
CREATE OR REPLACE FUNCTION {schema}.accept_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    declared record;
    judged   record;
BEGIN
    IF NEW.topic IS NULL THEN
        SELECT s.topic, t.mode, t.key_path, t.relay, t.dedup_path,
               (SELECT count(*) FROM {schema}.subscriptions o WHERE o.type = s.type AND o.topic > s.topic) AS copies
          INTO declared
          FROM {schema}.subscriptions s LEFT JOIN {schema}.topics t ON t.name = s.topic
         WHERE s.type = NEW.type ORDER BY s.topic LIMIT 1;
        NEW.topic := coalesce(declared.topic, 'default');
        IF declared.copies > 0 THEN
            PERFORM {schema}.copy_event_to(NEW, declared.copies);
        END IF;
    ELSE
        SELECT t.mode, t.key_path, t.relay, t.dedup_path INTO declared FROM {schema}.topics t WHERE t.name = NEW.topic;
    END IF;
    IF NEW.mode IS NULL THEN
        NEW.mode := coalesce(declared.mode, 'single');
    ELSIF NEW.mode <> coalesce(declared.mode, CASE NEW.mode WHEN 'batch' THEN 'single' ELSE NEW.mode END) THEN
        RAISE EXCEPTION 'an event of the topic % has the mode %, but %', quote_literal(NEW.topic), NEW.mode,
            CASE WHEN declared.mode IS NULL THEN 'no topic of that name is declared'
                 ELSE 'the topic is declared as ' || declared.mode END
            USING ERRCODE = 'IB007', HINT = 'Leave the mode out: the topic has one.';
    END IF;
    IF NEW.mode <> 'single' AND NEW.ordering_key IS NULL THEN
        NEW.ordering_key := coalesce(NEW.payload #>> declared.key_path,
                                     CASE WHEN declared.relay THEN NEW.event_id::text ELSE '' END);
        IF octet_length(NEW.ordering_key) > 255 THEN
            NEW.ordering_key := md5(NEW.ordering_key);
        END IF;
    END IF;
    IF NEW.dedup_key IS NULL AND declared.dedup_path IS NOT NULL THEN
        NEW.dedup_key := {schema}.declared_key(declared.dedup_path, NEW.event_id, NEW.payload);
    END IF;
    IF NEW.dedup_key IS NOT NULL AND NEW.bucket IS NULL THEN
        INSERT INTO {schema}.dedup (topic, source, key, event_id, body_hash)
        VALUES (NEW.topic, coalesce(NEW.source, ''), NEW.dedup_key, NEW.event_id,
                {schema}.body_hash(NEW.type, NEW.schema_version, NEW.payload))
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            SELECT j.verdict, j.first_event INTO judged FROM {schema}.judge_event(NEW) AS j;
            IF judged.verdict = 'again' THEN
                RETURN NULL;
            ELSIF judged.verdict = 'contradiction' THEN
                -- It gets the bucket of its line, to which it belongs if it is replayed.
                NEW.bucket := CASE NEW.mode WHEN 'single' THEN 0
                              ELSE {schema}.bucket_of(NEW.topic, NEW.ordering_key) END;
                NEW.status := 'failed';
                NEW.errors := {schema}.dedup_conflict(NEW.dedup_key, judged.first_event);
                NEW.fingerprint := 'dedup-conflict:' || NEW.type;
                RETURN NEW;
            END IF;
        END IF;
    END IF;
    IF NEW.mode = 'single' THEN
        NEW.bucket := 0;
        RETURN NEW;
    END IF;
    NEW.bucket := {schema}.bucket_of(NEW.topic, NEW.ordering_key);
    NEW.status := 'waiting';
    PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order.topics'), hashtext(NEW.topic));
    PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order'), NEW.bucket);
    NEW.id := nextval('{schema}.events_id_seq');
    IF NEW.mode = 'batch' THEN
        NEW.created_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;
