-- A command can expire: one that has not started by then is cancelled.
-- oldest code: 3
-- functions next: claim_limited, send_command, send_command_arrays
--
-- Workers of older code start expired commands that they claim, and an older leader leaves those that nobody claims; both
-- settle and replay commands as before, but leave the new column of history empty. Older code calls the three functions as
-- before: it gives each of their parameters by name or in the old order, and reads columns of the result by name.

ALTER TABLE {schema}.commands
    ADD COLUMN expires_at timestamptz CHECK (expires_at >= '1970-01-01Z' AND expires_at < '9999-01-01Z');
ALTER TABLE {schema}.commands_history ADD COLUMN expires_at timestamptz;
ALTER TABLE {schema}.schedules ADD COLUMN expires_after interval;  -- its command expires so long after a run's time
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

-- Commands that may expire: only these pay for it. A command whose attempt has failed never expires; a suspect may have
-- begun.
CREATE INDEX commands_expiry ON {schema}.commands (expires_at, id)
    WHERE expires_at IS NOT NULL AND attempts = 0 AND crashes = 0 AND status IN ('pending', 'waiting');

-- As before, but it says which commands have expired.
CREATE OR REPLACE VIEW {schema}.story AS
SELECT true AS hot, 'event' AS kind, id, event_id AS uuid, type, topic AS lane, status, attempts::integer,
       created_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at,
       NULL::interval AS duration, run_at, origin_kind, origin_id,
       causation_id, coalesce(correlation_id, event_id::text) AS correlation_id, traceparent,
       NULL::bigint AS batch_id, NULL::bigint AS replay_of, tenant, source, NULL::uuid AS worker_id,
       left(errors -> -1 ->> 'error', 200) AS error, NULL::jsonb AS counts
  FROM {schema}.events
UNION ALL
SELECT false, 'event', id, event_id, type, topic, status, attempts, created_at, NULL, finished_at,
       duration, run_at, origin_kind, origin_id, causation_id, coalesce(correlation_id, event_id::text), traceparent,
       NULL, NULL, tenant, source, worker_id, left(errors -> -1 ->> 'error', 200), NULL
  FROM {schema}.events_history
UNION ALL
SELECT true, 'command', id, command_id, type, queue, status, attempts, created_at, started_at, NULL,
       NULL, run_at, origin_kind, origin_id, causation_id, coalesce(correlation_id, command_id::text),
       traceparent, batch_id, replay_of, tenant, NULL, worker_id, left(errors -> -1 ->> 'error', 200), NULL
  FROM {schema}.commands
UNION ALL
SELECT false, 'command', id, command_id, type, queue, status, attempts, created_at, started_at,
       finished_at, duration, run_at, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, command_id::text), traceparent, batch_id, replay_of, tenant, NULL, worker_id,
       CASE WHEN status <> 'cancelled' OR cancel_requested THEN left(errors -> -1 ->> 'error', 200)
            WHEN attempts = 0 AND expires_at <= finished_at THEN 'expired: not started in time'
            ELSE 'skipped: not needed' END, NULL
  FROM {schema}.commands_history
UNION ALL
SELECT status IN ('pending', 'waiting', 'running', 'failed'), 'batch', id, batch_id, name, kind, status, 0,
       created_at, NULL, finished_at, finished_at - created_at, NULL, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, batch_id::text), traceparent, parent_id, NULL, tenant, NULL, NULL, NULL,
       jsonb_build_object('size', size, 'succeeded', succeeded, 'failed', failed, 'cancelled', cancelled,
                          'skipped', skipped, 'open', closed_at IS NULL)
  FROM {schema}.batches;

-- Made anew below, with one parameter more, or with one column more in the result.
DROP FUNCTION IF EXISTS {schema}.send_command(
    text, jsonb, text, uuid, integer, integer, timestamptz, timestamptz, integer, text, text, text, text, uuid, text, text,
    text, text);
DROP FUNCTION IF EXISTS {schema}.send_command_arrays(
    text[], jsonb[], text[], uuid[], integer[], integer[], timestamptz[], timestamptz[], integer[], text[], text[], text[],
    text[], uuid[], text[], text[], text[], text[]);
DROP FUNCTION IF EXISTS {schema}.claim_limited(
    uuid, text, integer, integer, integer, double precision, text[], text[], smallint[], double precision[], bigint[],
    boolean, text[], integer, integer, boolean, boolean, double precision, uuid, boolean);

-- Roles get the rights that they have on a column like it: also roles that are not inboxd's own.
DO $do$
DECLARE
    held record;
BEGIN
    FOR held IN SELECT acl.privilege_type AS privilege, added.name, a.attrelid::regclass AS of_table,
                       CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END AS role
                  FROM (VALUES ('commands', 'deadline', 'expires_at'), ('commands_history', 'deadline', 'expires_at'),
                               ('schedules', 'missed', 'expires_after')) AS added(of_table, beside, name)
                  JOIN pg_attribute a
                    ON a.attrelid = to_regclass('{schema}.' || added.of_table) AND a.attname = added.beside
                 CROSS JOIN LATERAL aclexplode(a.attacl) acl
    LOOP
        EXECUTE format('GRANT %s (%I) ON %s TO %s', held.privilege, held.name, held.of_table, held.role);
    END LOOP;
END
$do$;
