-- Schedules that an operator added by hand, beside those that workers declare.
-- oldest code: 3
-- functions: first
--
-- Code of before sends none of these. It would mark them as undeclared, and remove them after a week, and declare them
-- without saying so: a trigger sees to both.

ALTER TABLE {schema}.schedules
    ADD COLUMN added_at timestamptz;  -- when an operator added it, whom source names; NULL: a worker declares it

CREATE TRIGGER schedules_added BEFORE UPDATE ON {schema}.schedules
    FOR EACH ROW WHEN (OLD.added_at IS NOT NULL) EXECUTE FUNCTION {schema}.keep_added_schedule();

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (added_at) ON {schema}.schedules TO %I', role);
    END LOOP;
END
$do$;
