-- Samples: what waits and runs, counted by the leader every few seconds for everybody who looks.
-- oldest code: 3
--
-- Code of before counts for itself, and takes no samples when it leads.

-- What one of them says as totals; by those, charts are drawn. Kept for history.samples: all of the last 8,640 (a day,
-- every ten seconds), of those before the first of each minute. A row is narrow, so that a day's chart reads few blocks.
CREATE TABLE {schema}.samples (
    at               timestamptz PRIMARY KEY,  -- when counting began
    events_written   bigint NOT NULL,          -- as the server counts inserts: the difference of two is what arrived
    commands_written bigint NOT NULL,
    -- Counted up to a bound for each lane: waiting for whatever reason, those of them that are paused, and due ones for
    -- which no living worker is.
    events_waiting   integer NOT NULL,
    events_paused    integer NOT NULL,
    events_kept      integer NOT NULL,
    events_failed    integer NOT NULL,
    events_running   integer NOT NULL,  -- in the hands of workers, as they last said; so not known by the row
    events_oldest    real,              -- seconds that the oldest due one has waited which a worker could handle; NULL: none
    commands_waiting integer NOT NULL,
    commands_paused  integer NOT NULL,
    commands_failed  integer NOT NULL,
    commands_running integer NOT NULL,
    commands_oldest  real,
    suspects         integer NOT NULL,
    blocked_keys     integer NOT NULL,  -- of commands
    blocked_lines    integer NOT NULL,  -- of events
    held_topics      integer NOT NULL,
    held_receipts    integer NOT NULL,
    workers          integer NOT NULL,
    of_minute        boolean NOT NULL   -- the first of its minute
);

-- The newest one in full, lane by lane: what metrics and `inboxd status` show. One row, so that reading it is all that a
-- look costs. It goes back in time only where the clock did.
CREATE TABLE {schema}.newest_sample (
    id     boolean PRIMARY KEY DEFAULT true CHECK (id),
    at     timestamptz NOT NULL,
    counts jsonb NOT NULL
) WITH (fillfactor = 10);

-- Each lane over time: an hour a row, an element for each minute (the first is minute 0; NULL: nothing waited, or no
-- sample was taken). A lane of which nothing waited or was dead in an hour has no row of it. Fifty lanes are some 22 MB
-- in a fortnight.
CREATE TABLE {schema}.sampled_lanes (
    hour    timestamptz NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('event', 'command')),
    place   text NOT NULL,      -- topic or queue
    type    text NOT NULL,      -- '': the lines of a topic, where events of any type stand
    waiting integer[] NOT NULL,
    failed  integer[] NOT NULL,
    oldest  integer[] NOT NULL, -- seconds, as in samples
    PRIMARY KEY (hour, kind, place, type)
) WITH (fillfactor = 70);

-- Of in_flight, the events; NULL: a worker of an older release, which does not tell.
ALTER TABLE {schema}.workers ADD COLUMN events_in_flight integer;

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE
           ON {schema}.samples, {schema}.newest_sample, {schema}.sampled_lanes TO {schema}_worker;
    END IF;
END
$do$;
