-- The tables, their indexes and views.
-- oldest code: 3
--
-- Hot tables (events, commands) hold what is unsettled, history holds what is settled, and no row is ever in both: a
-- settlement is one DELETE … RETURNING into history. Hot tables have no foreign keys, which would lock the referenced
-- row at every insert, and as few indexes as the claims need.
--
-- Each index that answers the statements of one kind has a spelling of its own in its predicate or key, which only
-- those statements use: of two indexes that hold the same rows, the flatter one wins in a table that the planner
-- believes to be empty, whatever is asked (ADR 16).
--
-- {schema} is replaced by the schema's name. Each function has a file in functions/; what calls functions, triggers and
-- some defaults, is in 0003.

-- ------------------------------------------------------------------------------------- bodies
-- Payloads above about 1.5 KB: insert-only, never moved with their row. A partition a day.

CREATE SEQUENCE {schema}.bodies_id_seq;

CREATE TABLE {schema}.bodies (
    id         bigint NOT NULL DEFAULT nextval('{schema}.bodies_id_seq'),
    created_at timestamptz NOT NULL DEFAULT now(),
    payload    jsonb,
    raw        bytea,
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

ALTER SEQUENCE {schema}.bodies_id_seq OWNED BY {schema}.bodies.id;

-- ------------------------------------------------------------------------------------- events
-- Times that producers give lie between 1970 and 9999: what drivers cannot read (BC, infinity) would spoil the page
-- that holds it.

CREATE TABLE {schema}.events (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       uuid NOT NULL,  -- by default a new one (0003)
    topic          text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    mode           text NOT NULL CHECK (mode IN ('single', 'sequential', 'batch')),
    type           text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    schema_version smallint NOT NULL DEFAULT 1 CHECK (schema_version > 0),
    source         text,
    ordering_key   text CHECK (octet_length(ordering_key) <= 255),
    bucket         smallint,  -- NULL until accept_event has seen the row; 0 for single events
    dedup_key      text CHECK (octet_length(dedup_key) BETWEEN 1 AND 255),
    tenant         text,
    entity_type    text,
    entity_id      text,
    -- One that is left out, by COPY too, is {}; NULL that is given stays NULL, which handlers read as JSON's null, and
    -- is what a row has whose payload is in `bodies`.
    payload        jsonb DEFAULT '{}',
    headers        jsonb,
    correlation_id text,
    causation_id   uuid,
    traceparent    text,
    status         text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'waiting', 'failed')),
    attempts       smallint NOT NULL DEFAULT 0,
    crashes        smallint NOT NULL DEFAULT 0,
    run_at         timestamptz NOT NULL DEFAULT now()
                   CHECK (run_at >= '1970-01-01Z' AND run_at < '9999-01-01Z'),
    errors         jsonb,
    fingerprint    text,
    body_id        bigint,
    body_at        timestamptz,
    body_bytes     integer,
    occurred_at    timestamptz NOT NULL DEFAULT now()
                   CHECK (occurred_at >= '1970-01-01Z' AND occurred_at < '9999-01-01Z'),
    -- Of the statement, not of the row: a row whose updated_at is its created_at has not been changed since
    -- (open_lines.sql).
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    position       bigint,  -- in its line; NULL: not lined up
    head           boolean NOT NULL DEFAULT false,
    -- The row whose handler emitted it; NULL: a producer did. An event that goes to several topics is several rows with
    -- one event_id, so the causation_id of what they bring about does not tell them apart.
    origin_kind    text,
    origin_id      bigint,
    CHECK (position IS NOT NULL OR NOT head)
) WITH (
    -- Rows come and go; few are ever updated, so pages are filled to the brim.
    fillfactor = 100,
    -- A drain leaves a dead row for each live one: vacuum by count, not by a share of a table whose
    -- size swings between nothing and millions, and without the pauses meant for large cold tables.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);

-- An event may be in several topics. The topic has a collation of its own here, so that what asks for the events of a
-- topic is never answered by walking over this index from end to end. ON CONFLICT (event_id, topic) finds it all the
-- same.
CREATE UNIQUE INDEX events_event_id ON {schema}.events (event_id, topic COLLATE "C");
-- A lane is a topic and a type: what is paused or served by nobody is never walked over (ADR 2).
CREATE INDEX events_lane ON {schema}.events (topic, type, run_at, id) WHERE status = 'pending';
CREATE INDEX events_children ON {schema}.events (causation_id) WHERE causation_id IS NOT NULL;
-- Dead letters: by type, and by what they died of. Only a failure pays for these.
CREATE INDEX events_failed ON {schema}.events (type, id) WHERE status = 'failed';
CREATE INDEX events_failures ON {schema}.events (fingerprint, type, id) WHERE status || '' = 'failed';

-- A line is what one ordering key of a topic holds, where the topic's mode is not `single` (ADR 12). Its rows never are
-- `pending` when they come: they wait outside the lanes. Whoever changes a line holds its bucket's lock, an exclusive
-- transaction-level advisory lock on (topic, bucket). A row that cannot be processed when it is met is lined up: it gets a
-- position in its line. The lowest position is the line's head; its run_at tells when the line is looked at next, and while
-- it is a dead letter the line stands still. What is not lined up yet are the arrivals, met in the order of ids.
CREATE INDEX events_arrived ON {schema}.events (topic, bucket, id) WHERE status = 'waiting' AND position IS NULL;
CREATE UNIQUE INDEX events_lines ON {schema}.events (topic, ordering_key, position) WHERE position IS NOT NULL;
-- One head a line. A lane of heads is a topic and a type, as for single events.
CREATE UNIQUE INDEX events_head ON {schema}.events (topic, ordering_key) WHERE head;
CREATE INDEX events_heads ON {schema}.events (topic, type, run_at, id)
    WHERE head::integer = 1 AND status LIKE 'waiting';
-- For operators: lines that stand still.
CREATE INDEX events_blocking ON {schema}.events (topic, updated_at, id)
    WHERE head::integer = 1 AND status LIKE 'failed';

-- An event as it was when it was settled, and how that went. A partition a day.
CREATE TABLE {schema}.events_history (
    id             bigint NOT NULL,
    event_id       uuid NOT NULL,
    topic          text NOT NULL,
    mode           text NOT NULL,
    type           text NOT NULL,
    schema_version smallint NOT NULL,
    source         text,
    ordering_key   text,
    bucket         smallint,
    dedup_key      text,
    tenant         text,
    entity_type    text,
    entity_id      text,
    payload        jsonb,
    headers        jsonb,
    correlation_id text,
    causation_id   uuid,
    traceparent    text,
    status         text NOT NULL CHECK (status IN ('succeeded', 'failed', 'cancelled', 'dismissed')),
    attempts       smallint NOT NULL,
    crashes        smallint NOT NULL,
    run_at         timestamptz NOT NULL,
    errors         jsonb,
    fingerprint    text,
    body_id        bigint,
    body_at        timestamptz,
    body_bytes     integer,
    occurred_at    timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    finished_at    timestamptz NOT NULL,
    duration       interval,
    worker_id      uuid,
    origin_kind    text,
    origin_id      bigint
) PARTITION BY RANGE (finished_at);

CREATE INDEX events_history_id ON {schema}.events_history (id);
CREATE INDEX events_history_event_id ON {schema}.events_history (event_id);
CREATE INDEX events_history_children ON {schema}.events_history (causation_id) WHERE causation_id IS NOT NULL;
-- Rows that were settled more than a day after their body was stored: few, and the only ones in partitions that are
-- kept which may need a body of a partition that goes.
CREATE INDEX events_history_late ON {schema}.events_history (body_at)
    WHERE (finished_at - body_at) > interval '1 day';

-- ----------------------------------------------------------------------------------- commands
-- What waits for a command or a batch has an edge for each prerequisite in dependencies, and their number in its column
-- needs. An edge is deleted once, by whoever settles its prerequisite, and each deletion takes one off needs: that is
-- why a continuation is released exactly once (promise 6).

CREATE TABLE {schema}.commands (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command_id       uuid NOT NULL,  -- by default a new one (0003)
    queue            text NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    type             text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    schema_version   smallint NOT NULL DEFAULT 1 CHECK (schema_version > 0),
    payload          jsonb DEFAULT '{}',  -- as an event's
    priority         smallint NOT NULL DEFAULT 0,
    ordering_key     text CHECK (octet_length(ordering_key) BETWEEN 1 AND 255),
    bucket           smallint,
    unique_key       text CHECK (octet_length(unique_key) BETWEEN 1 AND 255),
    tenant           text,
    entity_type      text,
    entity_id        text,
    status           text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'waiting', 'running', 'failed')),
    attempts         smallint NOT NULL DEFAULT 0,
    max_attempts     smallint CHECK (max_attempts > 0),
    crashes          smallint NOT NULL DEFAULT 0,
    fence            bigint NOT NULL DEFAULT 0,
    run_at           timestamptz NOT NULL DEFAULT now()
                     CHECK (run_at >= '1970-01-01Z' AND run_at < '9999-01-01Z'),
    deadline         timestamptz CHECK (deadline >= '1970-01-01Z' AND deadline < '9999-01-01Z'),
    worker_id        uuid,
    started_at       timestamptz,
    cancel_requested boolean NOT NULL DEFAULT false,
    origin_kind      text NOT NULL DEFAULT 'api'
                     CHECK (origin_kind IN ('event', 'command', 'batch', 'replay', 'schedule', 'api')),
    origin_id        bigint,
    replay_of        bigint,
    batch_id         bigint,
    correlation_id   text,
    causation_id     uuid,
    traceparent      text,
    errors           jsonb,
    fingerprint      text,
    result           jsonb,
    progress         jsonb,
    body_id          bigint,
    body_at          timestamptz,
    body_bytes       integer,
    created_at       timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT statement_timestamp(),
    needs            integer NOT NULL DEFAULT 0 CHECK (needs >= 0),  -- prerequisites that have not come yet
    awaited          boolean NOT NULL DEFAULT false,                 -- something waits for it
    line_at          timestamptz,  -- its position in the line of its key, from its claim until it ends
    -- Commands that ran on one worker when it died are a group, until they have come through a run: NULL for all
    -- others, also for dead letters. Of a row with a group, crashes > 0 (ADR 20).
    suspect_group    uuid,
    lone_crashes     smallint,  -- deaths of workers that ran nothing else; NULL: it need not run alone
    alone_fence      bigint,    -- the fence of the claim under which nothing else runs on its worker
    CHECK ((status = 'running') = (worker_id IS NOT NULL)),
    CHECK (needs = 0 OR status IN ('waiting', 'failed'))
) WITH (
    -- Every row is updated once, by its claim: room for the new version on the same page halves the
    -- pages that a claim dirties.
    fillfactor = 70,
    -- As for events; a claim and a settlement leave two dead rows for each command.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE UNIQUE INDEX commands_command_id ON {schema}.commands (command_id);
-- At most one unsettled command of a type has a unique key; a dead letter has ended, and holds none.
CREATE UNIQUE INDEX commands_unique_key ON {schema}.commands (type, unique_key)
    WHERE unique_key IS NOT NULL AND status <> 'failed';
-- A lane is a queue, a type and a priority (ADR 2).
CREATE INDEX commands_lane ON {schema}.commands (queue, type, priority, run_at, id)
    WHERE status = 'pending' AND crashes = 0;
CREATE INDEX commands_suspects ON {schema}.commands (run_at, id) WHERE status = 'pending' AND crashes > 0;
CREATE INDEX commands_suspect_groups ON {schema}.commands (suspect_group, run_at, id)
    WHERE suspect_group IS NOT NULL;
CREATE INDEX commands_running ON {schema}.commands (worker_id) WHERE status = 'running';
-- Each heartbeat asks for those whose cancellation was requested. From the index of running rows it would read, under a
-- held snapshot, a dead entry of every command that its worker had claimed since: 0.7 s of the server after a million.
CREATE INDEX commands_cancelling ON {schema}.commands (worker_id) WHERE cancel_requested;

-- A command with an ordering key never is `pending`: it waits in the line of its key, outside the lanes (ADR 11). The
-- order in a line is (run_at, id); what is not due holds nobody up. What was claimed keeps its position, line_at, until it
-- ends: it holds its key, while it runs, waits for its retry, or is a dead letter. Only claim_limited takes keyed rows.
CREATE INDEX commands_line ON {schema}.commands (queue, ordering_key, run_at, id)
    WHERE status = 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL;
-- The same rows by time: what has come since somebody looked, by type as the lanes are.
CREATE INDEX commands_arrived ON {schema}.commands (queue, type, run_at, id)
    WHERE status LIKE 'waiting' AND needs = 0 AND ordering_key IS NOT NULL AND line_at IS NULL;
-- Who holds a key. In this order: failed, running, waiting.
CREATE INDEX commands_holding ON {schema}.commands (queue, ordering_key, status, line_at, id)
    WHERE line_at IS NOT NULL;
CREATE INDEX commands_again ON {schema}.commands (queue, type, run_at, id)
    WHERE status LIKE 'waiting' AND (line_at IS NULL)::integer = 0;
-- For operators: dead letters that may hold a key, and what waits for other rows.
CREATE INDEX commands_dead_keys ON {schema}.commands (queue, line_at, id)
    WHERE status LIKE 'failed' AND (line_at IS NULL)::integer = 0;
-- (>= 1, not > 0: what looks for the members of a batch must not be lured to it.)
CREATE INDEX commands_unmet ON {schema}.commands (queue, type) WHERE status = 'waiting' AND needs >= 1;

-- What a row created is found by its causation id. A member of a batch is found by its batch, so each row is in one of
-- the two. Running rows are in neither, so that a claim adds nothing: they are few, and found by their workers.
-- Measured with a child for each parent, the worst case: 0.7 of 23.3 µs of the server's time to claim and settle a
-- no-op command, 1.7 µs to insert one.
CREATE INDEX commands_children ON {schema}.commands (causation_id)
    WHERE causation_id IS NOT NULL AND batch_id IS NULL AND status <> 'running';
CREATE INDEX commands_batch ON {schema}.commands (batch_id, id) WHERE batch_id IS NOT NULL AND status <> 'running';
CREATE INDEX commands_held_up ON {schema}.commands (batch_id)
    WHERE batch_id IS NOT NULL AND status = 'waiting' AND needs > 0;

-- Dead letters: by type, by what they died of, among the children of a row, among a batch's members. Only a failure
-- pays for these.
CREATE INDEX commands_failed ON {schema}.commands (type, id) WHERE status = 'failed';
CREATE INDEX commands_failures ON {schema}.commands (fingerprint, type, id) WHERE status || '' = 'failed';
CREATE INDEX commands_failed_children ON {schema}.commands (causation_id)
    WHERE status LIKE 'failed' AND causation_id IS NOT NULL AND batch_id IS NULL;
CREATE INDEX commands_failed_members ON {schema}.commands (batch_id)
    WHERE status LIKE 'failed' AND batch_id IS NOT NULL;

-- A command as it was when it was settled, and how that went. A partition a day.
CREATE TABLE {schema}.commands_history (
    id               bigint NOT NULL,
    command_id       uuid NOT NULL,
    queue            text NOT NULL,
    type             text NOT NULL,
    schema_version   smallint NOT NULL,
    payload          jsonb,
    priority         smallint NOT NULL,
    ordering_key     text,
    bucket           smallint,
    unique_key       text,
    tenant           text,
    entity_type      text,
    entity_id        text,
    status           text NOT NULL CHECK (status IN ('succeeded', 'failed', 'cancelled', 'dismissed')),
    attempts         smallint NOT NULL,
    max_attempts     smallint,
    crashes          smallint NOT NULL,
    fence            bigint NOT NULL,
    run_at           timestamptz NOT NULL,
    deadline         timestamptz,
    worker_id        uuid,
    started_at       timestamptz,
    cancel_requested boolean NOT NULL,
    origin_kind      text NOT NULL,
    origin_id        bigint,
    replay_of        bigint,
    batch_id         bigint,
    correlation_id   text,
    causation_id     uuid,
    traceparent      text,
    errors           jsonb,
    fingerprint      text,
    result           jsonb,
    progress         jsonb,
    body_id          bigint,
    body_at          timestamptz,
    body_bytes       integer,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    finished_at      timestamptz NOT NULL,
    duration         interval,
    awaited          boolean  -- false: whoever settled it sees to what waits for it (commands_settled)
) PARTITION BY RANGE (finished_at);

CREATE INDEX commands_history_id ON {schema}.commands_history (id);
CREATE INDEX commands_history_command_id ON {schema}.commands_history (command_id);
-- With the worker, so that workers that settle one batch side by side do not write to the same end of it.
CREATE INDEX commands_history_batch ON {schema}.commands_history (batch_id, worker_id) WHERE batch_id IS NOT NULL;
CREATE INDEX commands_history_children ON {schema}.commands_history (causation_id)
    WHERE causation_id IS NOT NULL AND batch_id IS NULL;
CREATE INDEX commands_history_late ON {schema}.commands_history (body_at)
    WHERE (finished_at - body_at) > interval '1 day';

-- Queues with a limit over all workers. A claim from such a queue locks its row first; what it counts and takes is seen
-- by later statements, whose snapshots show all claims of that queue: no two overlap, and no limit is overshot.
CREATE TABLE {schema}.limits (
    name       text PRIMARY KEY,                     -- the queue
    running    bigint[] NOT NULL DEFAULT '{}',       -- what was claimed, the ended ones not taken off yet
    counted_at timestamptz,                          -- when `running` was last read from the table itself
    claimed_at timestamptz[] NOT NULL DEFAULT '{}',  -- the last claims, as far back as the rate looks
    claimed    integer[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);  -- a few rows, each updated by each claim

-- ------------------------------------------------------------------------- batches, workflows
-- A batch counts how its members ended. The counting is the database's, so that every way for a command to end counts,
-- also one that an older worker or an operator takes: what reaches history is counted by a statement trigger there, a
-- dead letter (which stays in the hot table) by a row trigger. Both only append a line to batch_progress, in the
-- settling transaction; fold_batch adds the lines up after its commit. One counter row that each command updates would
-- put the whole batch in one line, and «append, then look whether all have ended» sees, when two members end together,
-- neither the other's line (ADR 10).

CREATE TABLE {schema}.batches (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id       uuid NOT NULL UNIQUE,  -- by default a new one (0003)
    kind           text NOT NULL DEFAULT 'batch' CHECK (kind IN ('batch', 'workflow')),
    name           text NOT NULL DEFAULT '' CHECK (octet_length(name) <= 255),
    parent_id      bigint,  -- the batch (workflow) that it is a member of
    tenant         text,
    status         text NOT NULL DEFAULT 'pending'
                   CHECK (status IN ('pending', 'waiting', 'running', 'succeeded', 'failed', 'cancelled')),
    size           bigint NOT NULL DEFAULT 0,
    succeeded      bigint NOT NULL DEFAULT 0,
    failed         bigint NOT NULL DEFAULT 0,
    cancelled      bigint NOT NULL DEFAULT 0,
    skipped        bigint NOT NULL DEFAULT 0,
    needs          integer NOT NULL DEFAULT 0,          -- prerequisites that have not come yet
    awaited        boolean NOT NULL DEFAULT false,      -- something waits for it
    starting       boolean NOT NULL DEFAULT false,      -- members that waited for it are being released
    ending         text CHECK (ending IN ('cancelled', 'skipped')),  -- its members are being ended
    origin_kind    text NOT NULL DEFAULT 'api'
                   CHECK (origin_kind IN ('event', 'command', 'batch', 'replay', 'schedule', 'api')),
    origin_id      bigint,
    correlation_id text,
    causation_id   uuid,
    traceparent    text,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    closed_at      timestamptz,                         -- NULL: open, more may be added
    expires_at     timestamptz,                         -- when an open one counts as abandoned
    expired_at     timestamptz,
    finished_at    timestamptz,
    failed_at      timestamptz,                         -- when it first failed, healed since or not
    updated_at     timestamptz NOT NULL DEFAULT statement_timestamp()
) WITH (fillfactor = 70);  -- a fold updates it in place

CREATE INDEX batches_parent ON {schema}.batches (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX batches_causation ON {schema}.batches (causation_id) WHERE causation_id IS NOT NULL;
CREATE INDEX batches_open ON {schema}.batches (expires_at) WHERE closed_at IS NULL;
-- A batch is looked for by its number, never by walking over this one.
CREATE INDEX batches_status ON {schema}.batches ((status || ''));

-- What happened to a batch since it was folded last: small, and emptied all the time.
CREATE TABLE {schema}.batch_progress (
    batch_id  bigint NOT NULL,
    size      bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    skipped   bigint NOT NULL DEFAULT 0,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
-- With its time: since when a batch is unfolded is its first entry, so a look at all batches reads one of each.
CREATE INDEX batch_progress_batch ON {schema}.batch_progress (batch_id, at);

-- The uuids of commands or batches: «waiting» waits for «needs».
CREATE TABLE {schema}.dependencies (
    needs     uuid NOT NULL,
    waiting   uuid NOT NULL,
    condition text NOT NULL DEFAULT 'succeeded' CHECK (condition IN ('succeeded', 'failed', 'finished'))
);
-- An edge is looked for by either end, each by an index that does not name the other end as such.
CREATE UNIQUE INDEX dependencies_needs ON {schema}.dependencies (needs, condition, (waiting::text));
CREATE INDEX dependencies_waiting ON {schema}.dependencies (waiting);
ALTER TABLE {schema}.dependencies REPLICA IDENTITY FULL;  -- for who publishes all tables

-- The names of a workflow's members.
CREATE TABLE {schema}.steps (
    batch_id bigint NOT NULL,
    name     text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    member   uuid NOT NULL UNIQUE,
    PRIMARY KEY (batch_id, name)
);

-- ------------------------------------------------------------------------------------- topics

CREATE TABLE {schema}.topics (
    name          text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    mode          text NOT NULL CHECK (mode IN ('single', 'sequential', 'batch')),
    key_path      text[],  -- where in the payload the ordering key is, when its producer gives none
    dedup_path    text[],  -- where the dedup key is; {}: it is the event_id
    rules         jsonb NOT NULL DEFAULT '{}',  -- the rest of what was declared, for people to read
    source        text NOT NULL,
    declared_at   timestamptz NOT NULL DEFAULT now(),
    undeclared_at timestamptz,  -- since when no living worker declares it
    CHECK (name <> 'default' OR mode = 'single')  -- it gets what nobody subscribed to, unasked
);

-- Which topics get the events of a type whose producer names none.
CREATE TABLE {schema}.subscriptions (
    type          text NOT NULL CHECK (octet_length(type) BETWEEN 1 AND 255),
    topic         text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    declared_at   timestamptz NOT NULL DEFAULT now(),
    undeclared_at timestamptz,
    PRIMARY KEY (type, topic)
);

-- Events that were written before anybody had declared where they go are taken into their topics (ADR 18). An intake is
-- announced, and that has committed, before the declaration commits: from then on nothing that arrives in the lines of
-- its topics is processed, by whoever has read the horizon since (read_horizon.sql). The declaration itself reserves a
-- block of ids for each topic with lines, which is above all that any worker may take without another reading, and
-- below all that producers draw who know the declaration. So what is taken, in any order and by any number of takers,
-- stands in its own order and before what came later. The intake is finished when all who wrote to the table after the
-- declaration, and may not have known it, have ended, and nothing waits any more.
CREATE TABLE {schema}.intakes (
    origin       text NOT NULL,  -- the topic in which events wait
    type         text NOT NULL,  -- of these events; '': of any
    topic        text NOT NULL,  -- which is to get them
    low          bigint,         -- ids from low to high, shifted, are in the block; NULL: the topic has no lines
    high         bigint,
    shift        bigint,
    reserved     bigint,         -- the last id of all blocks; 16384 above it, shifted, are in this one too
    late_shift   bigint,
    taken        bigint NOT NULL DEFAULT 0,  -- events that left the origin
    declared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when it was announced first
    announced_at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- and last
    opened_at    timestamptz,    -- when the declaration was made; NULL: it is only announced
    finished_at  timestamptz,
    PRIMARY KEY (origin, type, topic)
);

-- A row with a dedup key is recorded here, in the transaction of its insert, by whichever way it comes: plain INSERT,
-- COPY, the functions. The record is a row of a unique index, so of any number of concurrent duplicates one is written;
-- the others wait until that one has committed, and are none if it rolls back. The record outlives the row: it goes
-- when the window of its topic and source has passed (docs/deduplication.md). ADR 14 tells why the key is kept as it
-- is, in one table.
--
-- The key comes first in the index: it tells rows apart at the first comparison. There is no index of times: what is
-- over is found by walking the table, a few blocks at a time (inboxd/maintenance/dedup.py).
CREATE TABLE {schema}.dedup (
    topic     text COLLATE "C" NOT NULL,
    source    text COLLATE "C" NOT NULL,  -- '' where the producer names none
    key       text COLLATE "C" NOT NULL,
    event_id  uuid NOT NULL,
    body_hash bigint,                     -- NULL: not known, so that nothing contradicts it
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (key, topic, source)
) WITH (
    -- Rows are inserted and, a window later, deleted. A vacuum walks the index whole, so it is worth its
    -- while only for a good share of them.
    fillfactor = 100, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0.1
);

-- What was sent again: written in the sender's transaction, counted and removed by the leader.
CREATE TABLE {schema}.duplicates (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic       text NOT NULL,
    source      text NOT NULL,
    key         text NOT NULL,
    type        text NOT NULL,
    event_id    uuid NOT NULL,  -- of what was sent again
    first_event uuid NOT NULL,  -- of what has the key
    conflict    boolean NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- What there is instead of an event that was not written (unwritten_event).
CREATE TYPE {schema}.emitted AS (id bigint, event_id uuid, conflict boolean);

-- ------------------------------------------------------------------------------------ workers
-- A row for each daemon process. heartbeat is a number: nobody compares clocks.

CREATE TABLE {schema}.workers (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    host          text NOT NULL,
    pid           integer NOT NULL,
    version       text NOT NULL,
    events        text[] NOT NULL,
    commands      text[] NOT NULL,
    queues        text[] NOT NULL,
    declares      text NOT NULL,
    state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'stopped', 'dead')),
    heartbeat     bigint NOT NULL DEFAULT 0,
    in_flight     integer NOT NULL DEFAULT 0,
    started_at    timestamptz NOT NULL DEFAULT now(),
    beat_at       timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,
    schedules     text[] NOT NULL DEFAULT '{}',
    topics        text[] NOT NULL DEFAULT '{}',  -- what it declares
    subscriptions text[] NOT NULL DEFAULT '{}',  -- topic and type, with a line feed between them
    -- The topics that it serves, as queues has its queues; empty: all. What its plugins declare, in topics and
    -- subscriptions, is declared all the same.
    served_topics text[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);  -- a heartbeat every few seconds: room for HOT updates

-- What the fleet declared last: gives a command its queue when its producer names none.
CREATE TABLE {schema}.declared_types (
    kind        text NOT NULL CHECK (kind IN ('event', 'command')),
    type        text NOT NULL,
    queue       text,
    declared_at timestamptz NOT NULL DEFAULT now(),
    retry       jsonb,  -- a list of {"handler", "policy", "source", "attempts"}, one entry a handler
    PRIMARY KEY (kind, type)
);

-- Who does what one worker does for all. The holder leads while its row in workers is running: a worker that leaves,
-- drains or was declared dead leads no more, so no clock is compared, and the one judge of who is dead is the reaper.
-- The term is raised by each who takes it: of two that try, one succeeds.
CREATE TABLE {schema}.leases (
    name     text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    holder   uuid,
    term     bigint NOT NULL DEFAULT 0,
    taken_at timestamptz NOT NULL DEFAULT now()
);

-- leader: maintenance. alone: one worker at a time stops claiming for others' sake, to run a suspect alone.
INSERT INTO {schema}.leases (name) VALUES ('leader'), ('alone');

-- Wake-ups: a NOTIFY when somebody must be woken, silence while a worker is claiming anyway. NOTIFY takes an
-- instance-wide lock at commit, so a busy queue must not pay for it. A sequence per table holds a flag; sequences are
-- not transactional, so everybody sees its newest value at once:
--   0  a worker that serves every lane of this table is claiming now, has free capacity, and will
--      set 1 and look again before it stops, for whatever reason
--   1  notify
--   2  nobody listens (mode "off")
-- At 0 a producer takes a shared advisory transaction lock and reads again: it is silent only if it has the lock and
-- the flag is still 0. A worker that wants to sleep sets 1 and then needs one success of the exclusive lock: every
-- silent producer has ended by then, and its rows are visible to the sweep that follows.
CREATE SEQUENCE {schema}.events_flag MINVALUE 0 START 1;
CREATE SEQUENCE {schema}.commands_flag MINVALUE 0 START 1;
SELECT setval('{schema}.events_flag', 1), setval('{schema}.commands_flag', 1);

-- ----------------------------------------------------------------------------------- controls
-- A row for each type, topic, queue or schedule that is paused. Every worker reads all of them when it is notified, and
-- twice a second: there are few. A paused lane is left alone, never walked over.

CREATE TABLE {schema}.controls (
    kind      text NOT NULL CHECK (kind IN ('type', 'topic', 'queue', 'schedule')),
    name      text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    paused_at timestamptz NOT NULL DEFAULT now(),
    actor     text NOT NULL,
    reason    text,
    PRIMARY KEY (kind, name)
);

-- What a plugin or the settings declare to be sent at certain times; workers write it when they join. Who sends holds
-- the row's lock, and moves next_at in the transaction that inserts: once, whoever dies.
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

-- ------------------------------------------------------------------- statistics, audit, replays

CREATE TABLE {schema}.stats (
    minute    timestamptz NOT NULL,
    worker_id uuid NOT NULL,
    kind      text NOT NULL,
    type      text NOT NULL,
    outcome   text NOT NULL,
    count     bigint NOT NULL,
    total     double precision NOT NULL,  -- seconds
    maximum   double precision NOT NULL,  -- seconds
    PRIMARY KEY (minute, worker_id, kind, type, outcome)
);

-- An action on many rows is one line, whose count grows with each page.
CREATE TABLE {schema}.audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT now(),
    actor  text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    reason text,
    count  bigint NOT NULL
);
CREATE INDEX audit_at ON {schema}.audit (at);

-- Every replay, in place or as a new row.
CREATE TABLE {schema}.replays (
    kind   text NOT NULL CHECK (kind IN ('event', 'command')),
    old_id bigint NOT NULL,
    new_id bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor  text NOT NULL,
    reason text
);
-- By number; the kind is looked at, not looked for.
CREATE INDEX replays_old ON {schema}.replays (old_id, kind COLLATE "C");
CREATE INDEX replays_new ON {schema}.replays (new_id, kind COLLATE "C");
CREATE INDEX replays_at ON {schema}.replays (at);

-- --------------------------------------------------------------------------------- partitions

-- A row for each partition that is to go, written before it is detached: what a worker finds detached and written down
-- here, it drops (or attaches again); what somebody else detached, it never touches (ADR 15).
CREATE TABLE {schema}.retired (
    part        text PRIMARY KEY,
    parent      text NOT NULL CHECK (parent IN ('bodies', 'events_history', 'commands_history')),
    low         timestamptz NOT NULL,
    high        timestamptz NOT NULL,
    retired_at  timestamptz NOT NULL DEFAULT now(),
    rows        bigint,       -- exported rows; NULL: not exported
    bytes       bigint,       -- of the file
    file        text,         -- host and path
    exported_at timestamptz,
    dropped_at  timestamptz
);

-- Which types have been removed from which partition (a type's own, shorter retention).
CREATE TABLE {schema}.trimmed (
    part       text NOT NULL,
    type       text NOT NULL,
    rows       bigint NOT NULL,
    trimmed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (part, type)
);

-- Every partition of the three tables, with the range that it holds. PostgreSQL says NULL for the range of one that is
-- gone already, though the snapshot still shows it. OFFSET 0: the range is asked for once, not for each column.
CREATE VIEW {schema}.partitions AS
SELECT parent.relname::text AS parent, part.relname::text AS part, part.oid AS oid,
       substring(bound.text FROM $r$FROM \('([^']+)'\)$r$)::timestamptz AS low,
       substring(bound.text FROM $r$TO \('([^']+)'\)$r$)::timestamptz AS high,
       i.inhdetachpending AS pending
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid
  JOIN pg_class part ON part.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid) AS text OFFSET 0) bound
 WHERE parent.relnamespace = to_regnamespace('{schema}') AND parent.relkind = 'p'
   AND parent.relname IN ('bodies', 'events_history', 'commands_history')
   AND bound.text IS NOT NULL;

-- -------------------------------------------------------------------------------------- story
-- Every row that can be part of a story, in the same columns. hot: not in history. batch_id: the batch that it is a
-- member of. A row without a story of its own begins one: its uuid is the correlation id of its descendants. Nobody is
-- slower for it: conditions reach the tables and their indexes.

CREATE VIEW {schema}.story AS
SELECT true AS hot, 'event' AS kind, id, event_id AS uuid, type, topic AS lane, status, attempts::integer,
       created_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at,
       NULL::interval AS duration, run_at, origin_kind, origin_id,
       causation_id, coalesce(correlation_id, event_id::text) AS correlation_id, traceparent,
       NULL::bigint AS batch_id, NULL::bigint AS replay_of, tenant, source, NULL::uuid AS worker_id,
       left(errors -> -1 ->> 'error', 200) AS error, NULL::jsonb AS counts
  FROM {schema}.events
UNION ALL
SELECT false, 'event', id, event_id, type, topic, status, attempts, created_at, NULL, finished_at,
       duration, run_at, origin_kind, origin_id, causation_id, coalesce(correlation_id, event_id::text), traceparent,
       NULL, NULL, tenant, source, worker_id, left(errors -> -1 ->> 'error', 200), NULL
  FROM {schema}.events_history
UNION ALL
SELECT true, 'command', id, command_id, type, queue, status, attempts, created_at, started_at, NULL,
       NULL, run_at, origin_kind, origin_id, causation_id, coalesce(correlation_id, command_id::text),
       traceparent, batch_id, replay_of, tenant, NULL, worker_id, left(errors -> -1 ->> 'error', 200), NULL
  FROM {schema}.commands
UNION ALL
SELECT false, 'command', id, command_id, type, queue, status, attempts, created_at, started_at,
       finished_at, duration, run_at, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, command_id::text), traceparent, batch_id, replay_of, tenant, NULL, worker_id,
       CASE WHEN status = 'cancelled' AND NOT cancel_requested THEN 'skipped: not needed'
            ELSE left(errors -> -1 ->> 'error', 200) END, NULL
  FROM {schema}.commands_history
UNION ALL
SELECT status IN ('pending', 'waiting', 'running', 'failed'), 'batch', id, batch_id, name, kind, status, 0,
       created_at, NULL, finished_at, finished_at - created_at, NULL, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, batch_id::text), traceparent, parent_id, NULL, tenant, NULL, NULL, NULL,
       jsonb_build_object('size', size, 'succeeded', succeeded, 'failed', failed, 'cancelled', cancelled,
                          'skipped', skipped, 'open', closed_at IS NULL)
  FROM {schema}.batches;
