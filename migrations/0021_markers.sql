-- What charts mark beside the acts of operators: workers of another release, and breakers that opened and closed.
-- oldest code: 3
--
-- Code of before tells no release of its plugins, and its breakers leave no trace here.

ALTER TABLE {schema}.workers ADD COLUMN release text;  -- the plugins that it runs, with their versions
CREATE INDEX workers_started ON {schema}.workers (started_at);

-- Written with the change itself, by the worker that made it; a break that goes on when its probe failed is no new one.
-- Removed after two weeks.
CREATE TABLE {schema}.breaker_changes (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    name  text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'closed'))
);
CREATE INDEX breaker_changes_at ON {schema}.breaker_changes (at);

DO $do$
DECLARE
    role text;
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, DELETE ON {schema}.breaker_changes TO {schema}_worker;
    END IF;
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (release) ON {schema}.workers TO %I', role);
        EXECUTE format('GRANT SELECT (id, at, name, state) ON {schema}.breaker_changes TO %I', role);
    END LOOP;
END
$do$;
