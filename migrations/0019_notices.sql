-- Notices: what is worth waking somebody for, each told once when it begins and once when it ends.
-- oldest code: 3

-- The leader writes them, while a topic is set for them. A cause that is gone and comes back within the pause of the
-- settings is the same notice still. What has ended is removed after 30 days.
CREATE TABLE {schema}.notices (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cause    text NOT NULL CHECK (cause IN ('dead letters', 'blocked keys', 'open breaker', 'backlog', 'late backlog')),
    kind     text NOT NULL CHECK (kind IN ('event', 'command', '')),  -- of the rows; '': a breaker has none
    subject  text NOT NULL,   -- a type, a topic or queue, a breaker
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    gone_at  timestamptz,     -- since when its cause is not there
    ended_at timestamptz CHECK (gone_at IS NOT NULL OR ended_at IS NULL)
);
CREATE UNIQUE INDEX notices_open ON {schema}.notices (cause, kind, subject) WHERE ended_at IS NULL;

DO $do$
DECLARE
    role text;
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.notices TO {schema}_worker;
    END IF;
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (id, cause, kind, subject, began_at, gone_at, ended_at) ON {schema}.notices TO %I', role);
    END LOOP;
END
$do$;
