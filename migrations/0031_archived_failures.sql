-- Failure groups that are archived, so that lists of failures leave them out; and other payloads of commands that never began.
-- oldest code: 3
--
-- Code of before lists archived groups as any other.

-- A group is archived as long as it has no more rows, and no newer one, than when this was written. Rows of groups that
-- are gone are removed when the next one is archived.
CREATE TABLE {schema}.archived_failures (
    kind        text NOT NULL CHECK (kind IN ('event', 'command')),
    fingerprint text NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text NOT NULL,
    reason      text,
    count       bigint NOT NULL,  -- dead letters it had
    last_id     bigint NOT NULL,  -- the newest of them
    PRIMARY KEY (kind, fingerprint)
);

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (kind, fingerprint, archived_at, actor, reason, count, last_id)'
                       ' ON {schema}.archived_failures TO %I', role);
    END LOOP;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.archived_failures TO {schema}_worker;
    END IF;
    IF to_regrole('{schema}_operator') IS NOT NULL THEN
        GRANT INSERT, UPDATE, DELETE ON {schema}.archived_failures TO {schema}_operator;
    END IF;
END
$do$;
