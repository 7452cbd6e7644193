-- The daily statement: what was received adds up with what became of it. Besides, batches have a type, and workers tell how new
-- their code is.
-- oldest code: 3
-- functions: first; new texts: open_batch, send_batch, send_workflow
--
-- Code of before makes no statements: when it leads, a day is closed later. Its leader counts days of history without their
-- sources; the newer one, which leads as soon as it is there, counts them again.

-- ---------------------------------------------------------------------------------- batches
-- What kind of work it is, by which lists are filtered; a name is any text.

ALTER TABLE {schema}.batches ADD COLUMN type text NOT NULL DEFAULT '' CHECK (octet_length(type) <= 255);

-- Made anew above, with one parameter more; callers that do not give it find the new ones.
DROP FUNCTION IF EXISTS
    {schema}.open_batch(text, jsonb, jsonb, jsonb, interval, text, text, uuid, text, uuid),
    {schema}.send_batch(text, jsonb, jsonb, jsonb, jsonb, text, text, uuid, text, uuid),
    {schema}.send_workflow(text, jsonb, jsonb, jsonb, jsonb, text, text, uuid, text, uuid);

-- ---------------------------------------------------------------------------------- workers
-- The version of its code, that of its newest migration; NULL: it tells none. The newest leads.

ALTER TABLE {schema}.workers ADD COLUMN code integer;

-- ---------------------------------------------------------------------------------- the statement
-- Of events, by the day (UTC) on which they were written, and by their source. A source that is not in statement_sources is
-- counted as `(other)`.

CREATE TABLE {schema}.statement_sources (source text PRIMARY KEY);

-- When statements were looked at last, and what the database was then (state_of_database): a backup of another one, or of an
-- older state, is not.
CREATE TABLE {schema}.statement_checks (
    id         boolean PRIMARY KEY DEFAULT true CHECK (id),
    checked_at timestamptz NOT NULL,
    database   text NOT NULL,
    timeline   bigint NOT NULL
);

-- A day is closed when it is counted for the first time: what it has then is what was received. It is not before all
-- transactions have ended that ran when it was seen to be over: they may have written rows of it.
CREATE TABLE {schema}.statement_days (
    day        date PRIMARY KEY,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    horizon    xid8 NOT NULL DEFAULT pg_snapshot_xmax(pg_current_snapshot()),
    closed_at  timestamptz   -- NULL: not yet
);

-- The statement as it was made last. received: those rows that were counted when the day was closed, as they have moved since,
-- and the duplicates; the others are what is there of it by now, or was when its days of history went.
CREATE TABLE {schema}.statement_lines (
    day        date NOT NULL REFERENCES {schema}.statement_days ON DELETE CASCADE,
    source     text NOT NULL,
    counted    bigint NOT NULL,  -- when the day was closed, without what had moved until then
    received   bigint NOT NULL,
    duplicates bigint NOT NULL,
    succeeded  bigint NOT NULL,
    dead       bigint NOT NULL,
    dismissed  bigint NOT NULL,
    cancelled  bigint NOT NULL,
    erased     bigint NOT NULL,
    open       bigint NOT NULL,
    PRIMARY KEY (day, source)
);

-- What does not add up, or speaks of an older state. It stays until it holds no more, or, for `once` ones, as long as the day
-- does; whoever has looked into it accepts it.
CREATE TABLE {schema}.statement_findings (
    day         date NOT NULL,
    source      text NOT NULL,  -- '': of none alone
    what        text NOT NULL,
    rows        bigint NOT NULL,
    detail      text NOT NULL,
    found_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_at timestamptz,
    accepted_by text,
    PRIMARY KEY (day, source, what)
);

-- What each partition of history has, or had when it went, of which day.
CREATE TABLE {schema}.statement_settled (
    day    date NOT NULL,
    source text NOT NULL,
    part   text NOT NULL,
    status text NOT NULL,  -- as in history; erased
    rows   bigint NOT NULL,
    PRIMARY KEY (day, source, part, status)
);
CREATE INDEX statement_settled_part ON {schema}.statement_settled (part);

-- Rows without their counterpart: events of history without their receipts, receipts without any event; one of each is named.
CREATE TABLE {schema}.statement_strays (
    part    text NOT NULL,
    day     date NOT NULL,
    source  text NOT NULL,
    what    text NOT NULL,
    rows    bigint NOT NULL,
    example uuid,
    PRIMARY KEY (part, day, source, what)
);

-- What was removed from history because of its type's age (trim_partition); names of sources as they are.
CREATE TABLE {schema}.statement_trimmed (
    day    date NOT NULL,
    source text NOT NULL,
    status text NOT NULL,
    rows   bigint NOT NULL,
    PRIMARY KEY (day, source, status)
);

-- By how many rows events became more or fewer when they went to other topics (take_events).
CREATE TABLE {schema}.statement_moves (
    day    date NOT NULL,
    source text NOT NULL,
    rows   bigint NOT NULL,
    PRIMARY KEY (day, source)
);

-- What was sent again.
CREATE TABLE {schema}.statement_duplicates (
    day    date NOT NULL,
    source text NOT NULL,
    rows   bigint NOT NULL,
    PRIMARY KEY (day, source)
);

-- Receipts of a day of theirs: the most that were ever counted, and how many there were last.
CREATE TABLE {schema}.statement_receipts (
    day        date NOT NULL,
    source     text NOT NULL,
    most       bigint NOT NULL,
    found      bigint NOT NULL,
    duplicates bigint NOT NULL,
    PRIMARY KEY (day, source)
);

-- Up to where streams of messages were stored when that was looked at last.
CREATE TABLE {schema}.statement_positions (
    source   text NOT NULL,
    stream   text NOT NULL,
    position bigint,
    identity text NOT NULL,
    fence    bigint NOT NULL,
    PRIMARY KEY (source, stream)
);

-- Receipts are counted as days of history are, and a day is counted again when its partition got or lost rows since.
ALTER TABLE {schema}.census DROP CONSTRAINT census_parent_check;
ALTER TABLE {schema}.census
    ADD CONSTRAINT census_parent_check CHECK (parent IN ('events_history', 'commands_history', 'receipts')),
    ADD COLUMN written bigint,  -- rows that the server had seen to come and go when counting began; NULL: without sources
    ADD COLUMN bytes bigint;    -- its size then

DO $do$
DECLARE
    role text;
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['statement_sources', 'statement_checks', 'statement_days', 'statement_lines', 'statement_findings',
                                'statement_settled', 'statement_strays', 'statement_trimmed', 'statement_moves',
                                'statement_duplicates', 'statement_receipts', 'statement_positions'] LOOP
        IF to_regrole('{schema}_worker') IS NOT NULL THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.%I TO {schema}_worker', name);
        END IF;
        FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
            CONTINUE WHEN to_regrole(role) IS NULL;
            EXECUTE (SELECT format('GRANT SELECT (%s) ON {schema}.%I TO %I',
                                   string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum), name, role)
                       FROM pg_attribute a
                      WHERE a.attrelid = to_regclass('{schema}.' || name) AND a.attnum > 0 AND NOT a.attisdropped);
        END LOOP;
    END LOOP;
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (type) ON {schema}.batches TO %I', role);
        EXECUTE format('GRANT SELECT (code) ON {schema}.workers TO %I', role);
        EXECUTE format('GRANT SELECT (written, bytes) ON {schema}.census TO %I', role);
    END LOOP;
    IF to_regrole('{schema}_operator') IS NOT NULL THEN
        GRANT UPDATE (accepted_at, accepted_by) ON {schema}.statement_findings TO {schema}_operator;
    END IF;
END
$do$;
