-- Bulk actions: what an operator does to all rows that match a filter, worked off by the workers.
-- oldest code: 3
--
-- Code of before works none of them off: they wait for a worker that does.

-- A row for each. Whoever works on one holds its row locked for a transaction, which changes some rows, and says so here
-- and in the action's line of the audit: so each row is met once, whatever becomes of the worker.
CREATE TABLE {schema}.actions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('event', 'command')),
    verb       text NOT NULL CHECK (verb IN ('replay', 'dismiss', 'cancel', 'reschedule', 'prioritize')),
    run_at     timestamptz CHECK ((run_at IS NOT NULL) = (verb = 'reschedule')),  -- the time that rows are given
    priority   smallint CHECK ((priority IS NOT NULL) = (verb = 'prioritize')),   -- the priority that they are given
    selection  jsonb NOT NULL,    -- the filter: times and names of groups in full, batches by number
    tenants    text[],            -- rows of others are not met; NULL: of any
    actor      text NOT NULL,
    reason     text,
    audit_id   bigint NOT NULL,   -- its line of the audit, whose count grows
    request_id uuid UNIQUE,       -- of the form that ordered it, so that it is ordered once; NULL: a command line did
    status     text NOT NULL CHECK (status IN ('scheduled', 'canary', 'running', 'paused', 'completed', 'aborted')),
    goes_on_as text CHECK (goes_on_as IN ('scheduled', 'canary', 'running')),  -- what it is once it is resumed
    note       text,              -- why it is paused
    starts_at  timestamptz NOT NULL,  -- until then it is undone by aborting it
    rate       real CHECK (rate > 0),      -- rows a second at most; NULL: as fast as it goes
    canary     integer NOT NULL DEFAULT 0 CHECK (canary BETWEEN 0 AND 100),  -- rows that have to succeed first
    canary_ids bigint[] NOT NULL DEFAULT '{}',  -- those, as they run again
    -- Rows are met in the order of their ids: those above `above`, up to the last one there was when it was ordered.
    above      bigint NOT NULL,
    first_id   bigint NOT NULL,
    last_id    bigint NOT NULL,
    counted    bigint NOT NULL,   -- rows that matched when it was ordered
    whole      boolean NOT NULL,  -- that many; else at least
    done       bigint NOT NULL DEFAULT 0,
    left_out   bigint NOT NULL DEFAULT 0,  -- rows that matched, and did not allow it any more when they were locked
    failures   smallint NOT NULL DEFAULT 0,  -- tries in a row that went wrong
    next_at    timestamptz NOT NULL,  -- when it goes on
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_at   timestamptz,
    ended_at   timestamptz CHECK ((ended_at IS NOT NULL) = (status IN ('completed', 'aborted'))),
    -- Rows that matched while somebody had them or their bucket in hand: they are tried again, before the action ends.
    passed_ids bigint[] NOT NULL DEFAULT '{}',
    CHECK ((goes_on_as IS NOT NULL) = (status = 'paused'))
) WITH (fillfactor = 50);  -- each transaction of an action updates its row: room for HOT updates

CREATE INDEX actions_open ON {schema}.actions (id) WHERE status IN ('scheduled', 'canary', 'running', 'paused');
CREATE INDEX actions_ended ON {schema}.actions (ended_at) WHERE ended_at IS NOT NULL;

DO $do$
DECLARE
    columns text[] := (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute
                      WHERE attrelid = to_regclass('{schema}.actions') AND attnum > 0 AND NOT attisdropped);
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.actions TO {schema}_worker;
    END IF;
    IF to_regrole('{schema}_viewer') IS NOT NULL THEN
        -- A selection may quote an error, and a note what the database said of a row.
        EXECUTE format('GRANT SELECT (%s) ON {schema}.actions TO {schema}_viewer',
                       array_to_string(array_remove(array_remove(columns, 'selection'), 'note'), ', '));
    END IF;
    -- Who may do it to rows that are named may order it for all that match.
    IF to_regrole('{schema}_operator') IS NOT NULL THEN
        EXECUTE format('GRANT SELECT (%s) ON {schema}.actions TO {schema}_operator', array_to_string(columns, ', '));
        GRANT INSERT, UPDATE (status, goes_on_as, note, failures, next_at, ended_at) ON {schema}.actions
           TO {schema}_operator;
    END IF;
END
$do$;
