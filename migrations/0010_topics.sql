-- Topics with a mode, and the lines of events that must keep their order or are handled as a list.
-- oldest code: 4
--
-- A line is what one ordering key of a topic holds, where the topic's mode is not `single` (ADR 12). Its rows
-- never are `pending` when they come: they wait outside the lanes from which older workers claim. Whoever
-- changes a line holds its bucket's lock, an exclusive transaction-level advisory lock on (topic, bucket).
-- A row that cannot be processed when it is met is filed: it gets a place in its line. The lowest place is
-- the line's head; its run_at tells when the line is looked at next, and while it is a dead letter the line
-- stands still. What is not filed yet are the arrivals, met in the order of ids.

CREATE TABLE {schema}.topics (
    name          text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    mode          text NOT NULL CHECK (mode IN ('single', 'sequential', 'batch')),
    CHECK (name <> 'default' OR mode = 'single'),  -- it gets what nobody subscribed to, unasked
    key_path      text[],  -- where in the payload the ordering key is, when its producer gives none
    dedup_path    text[],  -- where the dedup key is; {}: it is the event_id
    rules         jsonb NOT NULL DEFAULT '{}',  -- the rest of what was declared, for people to read
    source        text NOT NULL,
    declared_at   timestamptz NOT NULL DEFAULT now(),
    undeclared_at timestamptz  -- since when no living worker declares it
);

-- Which topics get the events of a type whose producer names none.
CREATE TABLE {schema}.subscriptions (
    type          text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    topic         text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    declared_at   timestamptz NOT NULL DEFAULT now(),
    undeclared_at timestamptz,
    PRIMARY KEY (type, topic)
);

-- topics: what this worker declares; subscriptions: topic and type, with a line feed between them.
ALTER TABLE {schema}.workers ADD COLUMN topics text[] NOT NULL DEFAULT '{}',
    ADD COLUMN subscriptions text[] NOT NULL DEFAULT '{}';

ALTER TABLE {schema}.events ADD COLUMN place bigint, ADD COLUMN head boolean NOT NULL DEFAULT false,
    ALTER COLUMN topic DROP DEFAULT, ALTER COLUMN mode DROP DEFAULT,
    ADD CHECK (octet_length(ordering_key) <= 255) NOT VALID,
    ADD CHECK (octet_length(dedup_key) BETWEEN 1 AND 255) NOT VALID,
    ADD CHECK (place IS NOT NULL OR NOT head) NOT VALID;

CREATE INDEX events_arrived ON {schema}.events (topic, bucket, id) WHERE status = 'waiting' AND place IS NULL;
CREATE UNIQUE INDEX events_lines ON {schema}.events (topic, ordering_key, place) WHERE place IS NOT NULL;
-- One head a line. A lane of heads is a topic and a type, as for single events.
CREATE UNIQUE INDEX events_head ON {schema}.events (topic, ordering_key) WHERE head;
CREATE INDEX events_heads ON {schema}.events (topic, type, run_at, id) WHERE head AND status = 'waiting';
-- For operators: lines that stand still.
CREATE INDEX events_blocking ON {schema}.events (topic, updated_at, id) WHERE head AND status = 'failed';

-- ----------------------------------------------------------------------------------- reception

CREATE FUNCTION {schema}.bucket_of(topic text, key text) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (hashtext(topic || ' ' || key) & 63)::smallint
$$;

-- Fills in what the producer left to the declarations. bucket is NULL until this has happened, and 0 for
-- single events; producers may not write it.
--
-- An event of a line draws its id under a shared lock on its bucket, which is held until its transaction
-- ends. Nobody takes that lock exclusively, so producers never wait for each other; a worker sees in
-- pg_locks whose events may still be missing, and does not pass by them.
CREATE FUNCTION {schema}.accept_event() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    declared record;
BEGIN
    IF NEW.topic IS NULL THEN
        SELECT s.topic, t.mode, t.key_path INTO declared
          FROM {schema}.subscriptions s LEFT JOIN {schema}.topics t ON t.name = s.topic
         WHERE s.type = NEW.type ORDER BY s.topic LIMIT 1;
        NEW.topic := coalesce(declared.topic, 'default');
    ELSE
        SELECT t.name AS topic, t.mode, t.key_path INTO declared FROM {schema}.topics t WHERE t.name = NEW.topic;
    END IF;
    IF NEW.mode IS NULL THEN
        NEW.mode := coalesce(declared.mode, 'single');
    ELSIF NEW.mode <> coalesce(declared.mode, CASE NEW.mode WHEN 'batch' THEN 'single' ELSE NEW.mode END) THEN
        RAISE EXCEPTION 'an event of the topic % has the mode %, but %', quote_literal(NEW.topic), NEW.mode,
            CASE WHEN declared.mode IS NULL THEN 'no topic of that name is declared'
                 ELSE 'the topic is declared as ' || declared.mode END
            USING ERRCODE = 'IB007', HINT = 'Leave the mode out: the topic has one.';
    END IF;
    IF NEW.mode = 'single' THEN
        NEW.bucket := 0;
        RETURN NEW;
    END IF;
    IF NEW.ordering_key IS NULL THEN
        NEW.ordering_key := coalesce(NEW.payload #>> declared.key_path, '');
        IF octet_length(NEW.ordering_key) > 255 THEN
            NEW.ordering_key := md5(NEW.ordering_key);
        END IF;
    END IF;
    NEW.bucket := {schema}.bucket_of(NEW.topic, NEW.ordering_key);
    NEW.status := 'waiting';
    PERFORM pg_advisory_xact_lock_shared(hashtext('{schema}.order'), NEW.bucket);
    NEW.id := nextval('{schema}.events_id_seq');
    IF NEW.mode = 'batch' THEN
        NEW.created_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;

-- Its name comes before events_body: the key is read from the payload before that moves away.
CREATE TRIGGER events_accept BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (NEW.bucket IS NULL) EXECUTE FUNCTION {schema}.accept_event();

-- --------------------------------------------------------------------------------------- lines

-- A dead letter that is tried again in its line waits there; fires after events_transition, which judges
-- the move that was meant. Of a batch topic it is run alone, from its lane.
CREATE FUNCTION {schema}.stay_in_line() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.status := 'waiting';
    RETURN NEW;
END
$$;

CREATE TRIGGER events_wait BEFORE UPDATE OF status ON {schema}.events FOR EACH ROW
    WHEN (NEW.mode = 'sequential' AND NEW.status = 'pending') EXECUTE FUNCTION {schema}.stay_in_line();


-- When the head has left its line, the next in it is the head. The caller should hold the bucket's lock
-- already; who does not gets it here, so that no arrival is filed behind a head that is gone.
CREATE FUNCTION {schema}.succeed_head() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.' || OLD.topic), OLD.bucket);
    UPDATE {schema}.events e SET head = true
     WHERE e.id = (SELECT n.id FROM {schema}.events n
                    WHERE n.topic = OLD.topic AND n.ordering_key = OLD.ordering_key AND n.place IS NOT NULL
                    ORDER BY n.place LIMIT 1)
       AND NOT e.head;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_head_gone AFTER DELETE ON {schema}.events FOR EACH ROW
    WHEN (OLD.head) EXECUTE FUNCTION {schema}.succeed_head();
CREATE TRIGGER events_head_aside AFTER UPDATE OF head ON {schema}.events FOR EACH ROW
    WHEN (OLD.head AND NOT NEW.head) EXECUTE FUNCTION {schema}.succeed_head();

-- --------------------------------------------------------------------------------- privileges

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;

DO $do$
BEGIN
    IF to_regrole('{schema}_producer') IS NOT NULL THEN
        GRANT INSERT (mode, ordering_key) ON {schema}.events TO {schema}_producer;
    END IF;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.topics, {schema}.subscriptions TO {schema}_worker;
        GRANT SELECT ON SEQUENCE {schema}.events_id_seq TO {schema}_worker;
        GRANT EXECUTE ON FUNCTION {schema}.bucket_of(text, text) TO {schema}_worker;
    END IF;
END
$do$;
