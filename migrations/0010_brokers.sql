-- Brokers: what relays have leased, and up to where sources of messages were stored.
-- oldest code: 3
--
-- Code of before knows neither: its workers serve no topic of a relay, since none of its handlers is for one.

-- Whether its events are published by a relay: then no worker without that relay takes them, and those that come without
-- an ordering key are each in a line of its own.
ALTER TABLE {schema}.topics ADD COLUMN relay boolean NOT NULL DEFAULT false;
CREATE INDEX topics_relay ON {schema}.topics (name) WHERE relay;

-- The buckets of relays' topics that are leased: a worker publishes what it claimed of them with no transaction open,
-- and settles it under the fence that it then had. A lease counts as long as its worker runs. A row for each bucket that
-- was ever leased, 64 a topic: updated twice a page, in place.
CREATE TABLE {schema}.relay_leases (
    topic     text NOT NULL,
    bucket    smallint NOT NULL,
    worker_id uuid,  -- NULL: free
    fence     bigint NOT NULL DEFAULT 1,
    taken_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (topic, bucket)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Up to where each stream of a source of messages is stored: written in the transaction that stores the events, so that
-- a message is an event once, whatever became of its acknowledgement. The fence is raised by each reader that opens the
-- stream, and by an operator who resets it: what an earlier reader has in its hands is not stored any more. A row for
-- each Kafka partition, NATS stream and RabbitMQ queue, updated in place with each page.
CREATE TABLE {schema}.stream_positions (
    source    text NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 255),
    stream    text NOT NULL CHECK (octet_length(stream) <= 512),
    position  bigint,  -- of the last message that is stored; NULL: none is, or its broker has no positions
    identity  text NOT NULL DEFAULT '',  -- of the stream, so that another one of its name is not taken for it
    begins    text CHECK (begins IN ('oldest', 'newest')),  -- where an operator wants it begun; NULL: as the settings say
    fence     bigint NOT NULL DEFAULT 1,
    reader    uuid,  -- the worker that has opened it; NULL: somebody reset it since then
    opened_at timestamptz,
    stored_at timestamptz,
    PRIMARY KEY (source, stream)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What workers tell of the sources that they read, or would read. A row for each source and worker; those of workers
-- that are gone go when another one begins.
CREATE TABLE {schema}.message_readers (
    source    text NOT NULL,
    worker_id uuid NOT NULL,
    broker    text NOT NULL,
    state     text NOT NULL CHECK (state IN ('reading', 'standby', 'paused', 'away', 'failing', 'lost')),
    trouble   text,    -- why it does not read
    lag       bigint,  -- messages that its broker has and it has not received; NULL: not known
    since     timestamptz NOT NULL DEFAULT statement_timestamp(),  -- of the state
    shown_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    PRIMARY KEY (source, worker_id)
) WITH (fillfactor = 50);

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE
           ON {schema}.relay_leases, {schema}.stream_positions, {schema}.message_readers TO {schema}_worker;
        GRANT INSERT ON {schema}.leases TO {schema}_worker;  -- one for each source that one worker reads
    END IF;
END
$do$;
