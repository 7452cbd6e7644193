-- Who wrote a row counts: its result, and waiting for it, are for who sent it; sources that are received are written by who receives;
-- and who writes into a line holds up its topic alone. Besides, functions name what they call by its schema.
-- oldest code: 3
-- functions: first; new texts: accept_event, take_events
--
-- Code of before settles commands without their senders: whoever knows the id of one that it settled reads its result, as before.

-- Whoever writes into a line says from now on into which topic, besides the bucket. Nobody may be at it who began before: of
-- those it is not known.
LOCK TABLE {schema}.events IN SHARE ROW EXCLUSIVE MODE;

-- ---------------------------------------------------------------------------------- senders
-- The login that sent it: no producer may write it. NULL: of before.

ALTER TABLE {schema}.commands ADD COLUMN sender text;
ALTER TABLE {schema}.commands ALTER COLUMN sender SET DEFAULT session_user;
ALTER TABLE {schema}.commands_history ADD COLUMN sender text;
-- Days that are detached may come back.
DO $do$
DECLARE
    part text;
BEGIN
    FOR part IN SELECT c.relname FROM pg_class c
                 WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r' AND NOT c.relispartition
                   AND c.relname ~ '^commands_history_[0-9]+$' AND pg_has_role(c.relowner, 'USAGE')
                   AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'command_id')
    LOOP
        EXECUTE format('ALTER TABLE {schema}.%I ADD COLUMN IF NOT EXISTS sender text', part);
    END LOOP;
END
$do$;
ALTER TABLE {schema}.batches ADD COLUMN sender text;
ALTER TABLE {schema}.batches ALTER COLUMN sender SET DEFAULT session_user;

-- ---------------------------------------------------------------------------------- sources
-- Those that anybody has received webhooks of. A producer that wrote events of one could take a dedup key before the webhook
-- that has it came. Sources of messages are in stream_positions.

CREATE TABLE {schema}.received_sources (
    source text PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO {schema}.received_sources (source) SELECT DISTINCT unnest(sources) FROM {schema}.receivers;

CREATE TRIGGER receivers_begin AFTER INSERT ON {schema}.receivers FOR EACH ROW
    EXECUTE FUNCTION {schema}.keep_sources();
CREATE TRIGGER receivers_receive AFTER UPDATE OF sources ON {schema}.receivers FOR EACH ROW
    WHEN (OLD.sources <> NEW.sources) EXECUTE FUNCTION {schema}.keep_sources();

-- Receivers and workers may write into receivers. An operator who resumes a source writes events of its receipts. The role is
-- that of SET ROLE, where the session has one.
CREATE TRIGGER events_above_source BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (NEW.source IS NOT NULL AND NEW.origin_kind IS DISTINCT FROM 'receipt'
          AND NOT has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user),
                                      '{schema}.receivers'::regclass, 'INSERT'))
    EXECUTE FUNCTION {schema}.refuse_source();

-- ---------------------------------------------------------------------------------- roles

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (sender) ON {schema}.commands, {schema}.commands_history, {schema}.batches TO %I', role);
        EXECUTE format('GRANT SELECT (source, at) ON {schema}.received_sources TO %I', role);
    END LOOP;
    -- A worker reads all that operators read.
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT ON {schema}.received_sources TO {schema}_worker;
    END IF;
END
$do$;
