-- A command can expire: one that has not started by then is cancelled.
-- oldest code: 3
-- functions: first; new texts: send_command, send_command_arrays, send_commands, insert_members, put_away
-- functions next: claim_limited
--
-- Workers of older code start expired commands that they claim, and an older leader leaves those that nobody claims; both
-- settle and replay commands as before, but leave the new column of history empty.

ALTER TABLE {schema}.commands ADD COLUMN expires_at timestamptz;
ALTER TABLE {schema}.commands_history ADD COLUMN expires_at timestamptz;
-- Days that are detached may come back.
DO $part$
DECLARE
    part text;
BEGIN
    FOR part IN SELECT c.relname FROM pg_class c
                 WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r' AND NOT c.relispartition
                   AND c.relname ~ '^commands_history_[0-9]+$' AND pg_has_role(c.relowner, 'USAGE')
                   AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'command_id')
    LOOP
        EXECUTE format('ALTER TABLE {schema}.%I ADD COLUMN IF NOT EXISTS expires_at timestamptz', part);
    END LOOP;
END
$part$;
ALTER TABLE {schema}.schedules ADD COLUMN expires_after interval;  -- its command expires so long after a run's time

-- Commands that may expire: only these pay for it. A command that has begun never expires; a suspect may have begun.
CREATE INDEX commands_expiry ON {schema}.commands (expires_at)
    WHERE expires_at IS NOT NULL AND attempts = 0 AND crashes = 0 AND status IN ('pending', 'waiting');

-- A handler's command is due when the handler ends, which may be late; its own times are checked by ctx.send.
CREATE TRIGGER commands_above_expiry BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (NEW.expires_at IS NOT NULL
          AND (NEW.expires_at < '1970-01-01Z' OR NEW.expires_at >= '9999-01-01Z'
               OR NEW.expires_at <= NEW.run_at AND NEW.run_at > clock_timestamp()
                  AND NEW.origin_kind NOT IN ('event', 'command')))
    EXECUTE FUNCTION {schema}.refuse_expiry();

-- Made anew above, with one parameter more; callers that do not give it find the new ones.
DROP FUNCTION IF EXISTS {schema}.send_command(
    text, jsonb, text, uuid, integer, integer, timestamptz, timestamptz, integer, text, text, text, text, uuid, text, text,
    text, text);
DROP FUNCTION IF EXISTS {schema}.send_command_arrays(
    text[], jsonb[], text[], uuid[], integer[], integer[], timestamptz[], timestamptz[], integer[], text[], text[], text[],
    text[], uuid[], text[], text[], text[], text[]);
-- Made anew below, with one column more in its result; older code names the columns that it reads.
DROP FUNCTION IF EXISTS {schema}.claim_limited(
    uuid, text, integer, integer, integer, double precision, text[], text[], smallint[], double precision[], bigint[],
    boolean, text[], integer, integer, boolean, boolean, double precision, uuid, boolean);

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (expires_at) ON {schema}.commands TO %I', role);
        EXECUTE format('GRANT SELECT (expires_at) ON {schema}.commands_history TO %I', role);
        EXECUTE format('GRANT SELECT (expires_after) ON {schema}.schedules TO %I', role);
    END LOOP;
    IF to_regrole('{schema}_operator') IS NOT NULL THEN
        GRANT UPDATE (expires_at) ON {schema}.commands TO {schema}_operator;
    END IF;
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT UPDATE (expires_at) ON {schema}.commands TO {schema}_worker;
    END IF;
    IF to_regrole('{schema}_producer') IS NOT NULL THEN
        GRANT INSERT (expires_at) ON {schema}.commands TO {schema}_producer;
    END IF;
END
$do$;
