-- Circuit breakers: what all workers know of targets that are down.
-- oldest code: 3
-- functions: first
--
-- Code of before knows nothing of them, and claims on.

-- A row for each breaker that a worker declares, or that has been open. Written on transitions only, each time with a
-- new version: who writes names the version that it knew. Times are the database's. Every worker reads all of them when
-- it is notified, and twice a second: there are few.

CREATE TABLE {schema}.breakers (
    name        text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
    -- What an operator makes of it; auto: what the calls make of it.
    mode        text NOT NULL DEFAULT 'auto' CHECK (mode IN ('auto', 'open', 'closed', 'metrics_only')),
    -- half_open: a worker probes, and others may when its time is over.
    state       text NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open')),
    opens       integer NOT NULL DEFAULT 0 CHECK (opens >= 0),  -- breaks in a row
    open_until  timestamptz,
    probe_by    uuid,
    probe_until timestamptz,
    reason      text,  -- why it opened last
    actor       text,  -- who forced it last, and why
    forced_for  text,
    -- What needs it, as workers have declared it: 'command TYPE', 'event TYPE', 'topic NAME'.
    uses        text[] NOT NULL DEFAULT '{}',
    version     bigint NOT NULL DEFAULT 1,
    changed_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    CHECK ((state = 'closed') = (open_until IS NULL)),
    CHECK ((state = 'half_open') = (probe_until IS NOT NULL)),
    CHECK ((probe_until IS NULL) = (probe_by IS NULL))
);

-- A probe that goes on changes nothing for others: they are not notified of it.
CREATE TRIGGER breakers_changed AFTER INSERT OR DELETE OR UPDATE OF version ON {schema}.breakers
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.controls_changed();

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.breakers TO {schema}_worker;
    END IF;
END
$do$;
