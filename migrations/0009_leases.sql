-- Who does the duties that one worker does for all.
-- oldest code: 4
--
-- An older worker goes on doing all of them: each is harmless when two do it.

-- ------------------------------------------------------------------------------------ leases
-- A row for each set of duties. Its holder leads while its row in workers is running: a worker that
-- leaves, drains or was declared dead leads no more, so no clock is compared, and the one judge of who
-- is dead is the reaper. The term is raised by each who takes it: of two that try, one succeeds.

CREATE TABLE {schema}.leases (
    name     text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    holder   uuid,
    term     bigint NOT NULL DEFAULT 0,
    taken_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO {schema}.leases (name) VALUES ('upkeep');

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, UPDATE ON {schema}.leases TO {schema}_worker;
    END IF;
END
$do$;
