-- What each step of a workflow waits for stays known: a row of dependencies goes when it is met, so that a workflow that
-- has begun could not be drawn any more.
-- oldest code: 3

-- Code of before names steps without it.
ALTER TABLE {schema}.steps
    ADD COLUMN after text[];  -- names of steps with their conditions, 'basic succeeded'; NULL: older code wrote it

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (after) ON {schema}.steps TO %I', role);
    END LOOP;
END
$do$;
