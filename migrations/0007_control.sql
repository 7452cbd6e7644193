-- What operators hold back, what clocks set off, and the retry rule of each declared type.
-- oldest code: 4
--
-- An older worker goes on working: it does not obey a pause, emits no schedule and says nothing of its
-- retry rules, so a pause holds once the last of them has been replaced.

-- ----------------------------------------------------------------------------------- controls
-- A row for each type, topic, queue or schedule that is paused. Every worker reads all of them when it is
-- notified, and twice a second: there are few. A paused lane is left alone, never walked over.

CREATE TABLE {schema}.controls (
    kind      text NOT NULL CHECK (kind IN ('type', 'topic', 'queue', 'schedule')),
    name      text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    paused_at timestamptz NOT NULL DEFAULT now(),
    actor     text NOT NULL,
    reason    text,
    PRIMARY KEY (kind, name)
);

CREATE FUNCTION {schema}.controls_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('inboxd.notify', true) IS DISTINCT FROM 'off' THEN
        PERFORM pg_notify('{schema}_controls', '');
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER controls_changed AFTER INSERT OR UPDATE OR DELETE ON {schema}.controls
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.controls_changed();

-- ---------------------------------------------------------------------------------- schedules
-- What a plugin or the settings declare to be sent at certain times; workers write it when they join.
-- Who sends holds the row's lock, and moves next_at in the transaction that inserts: once, whoever dies.

CREATE TABLE {schema}.schedules (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text NOT NULL UNIQUE CHECK (octet_length(name) BETWEEN 1 AND 255),
    source         text NOT NULL,
    cron           text NOT NULL,
    zone           text NOT NULL,
    missed         text NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    kind           text NOT NULL CHECK (kind IN ('event', 'command')),
    type           text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    schema_version smallint NOT NULL CHECK (schema_version > 0),
    lane           text CHECK (octet_length(lane) BETWEEN 1 AND 255),  -- topic or queue
    priority       smallint NOT NULL,
    tenant         text,
    payload        jsonb NOT NULL,
    time_field     text,              -- the field of the payload that tells the run's time
    next_at        timestamptz NOT NULL,
    last_at        timestamptz,       -- the time of the run that was sent last, not when it was sent
    undeclared_at  timestamptz,       -- since when no living worker declares it
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);  -- each run updates its row: room for HOT updates

ALTER TABLE {schema}.workers ADD COLUMN schedules text[] NOT NULL DEFAULT '{}';

-- --------------------------------------------------------------------------------- retry rules
-- A list of {"handler", "policy", "source", "attempts"}, one entry a handler.

ALTER TABLE {schema}.declared_types ADD COLUMN retry jsonb;

DO $do$
BEGIN
    GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.controls, {schema}.schedules TO {schema}_worker;
EXCEPTION
    WHEN undefined_object THEN NULL;  -- the role was not created: 0004 said so
END
$do$;
