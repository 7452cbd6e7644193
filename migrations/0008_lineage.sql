-- Lineage read from any row, failures read as groups, actions on many rows audited as one.
-- oldest code: 4

-- --------------------------------------------------------------------------------------- children
-- What a row created is found by its causation id. A member of a batch is found by its batch (0005), so
-- each row is in one of the two. Running rows are in neither, so that a claim adds nothing: they are few,
-- and found by their workers. Measured with a child for each parent, the worst case: 0.7 of 23.3 µs of
-- the server's time to claim and settle a no-op command, 1.7 µs to insert one.

CREATE INDEX commands_children ON {schema}.commands (causation_id)
    WHERE causation_id IS NOT NULL AND batch_id IS NULL AND status <> 'running';
CREATE INDEX commands_history_children ON {schema}.commands_history (causation_id)
    WHERE causation_id IS NOT NULL AND batch_id IS NULL;
CREATE INDEX events_children ON {schema}.events (causation_id) WHERE causation_id IS NOT NULL;
CREATE INDEX events_history_children ON {schema}.events_history (causation_id)
    WHERE causation_id IS NOT NULL;

-- Dead letters among a million others. Only a failure pays for these.
CREATE INDEX commands_failed_children ON {schema}.commands (causation_id)
    WHERE status = 'failed' AND causation_id IS NOT NULL AND batch_id IS NULL;
CREATE INDEX commands_failed_members ON {schema}.commands (batch_id)
    WHERE status = 'failed' AND batch_id IS NOT NULL;
CREATE INDEX commands_failures ON {schema}.commands (fingerprint, type, id) WHERE status = 'failed';
CREATE INDEX events_failures ON {schema}.events (fingerprint, type, id) WHERE status = 'failed';

-- Every row that can be part of a story, in the same columns. batch_id: the batch that it is a member
-- of. A row without a story of its own begins one: its uuid is the correlation id of its descendants.
-- Nobody is slower for it: conditions reach the tables and their indexes. hot: not in history.

CREATE VIEW {schema}.story AS
SELECT true AS hot, 'event' AS kind, id, event_id AS uuid, type, topic AS lane, status, attempts::integer,
       created_at, NULL::timestamptz AS started_at, NULL::timestamptz AS finished_at,
       NULL::interval AS duration, run_at, NULL::text AS origin_kind, NULL::bigint AS origin_id,
       causation_id, coalesce(correlation_id, event_id::text) AS correlation_id, traceparent,
       NULL::bigint AS batch_id, NULL::bigint AS replay_of, tenant, source, NULL::uuid AS worker_id,
       left(errors -> -1 ->> 'error', 200) AS error, NULL::jsonb AS counts
  FROM {schema}.events
UNION ALL
SELECT false, 'event', id, event_id, type, topic, status, attempts, created_at, NULL, finished_at,
       duration, run_at, NULL, NULL, causation_id, coalesce(correlation_id, event_id::text), traceparent,
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
       CASE WHEN status = 'cancelled' AND NOT cancel_requested THEN 'skipped: not needed'
            ELSE left(errors -> -1 ->> 'error', 200) END, NULL
  FROM {schema}.commands_history
UNION ALL
SELECT status IN ('pending', 'waiting', 'running', 'failed'), 'batch', id, batch_id, name, kind, status, 0,
       created_at, NULL, finished_at, finished_at - created_at, NULL, origin_kind, origin_id, causation_id,
       coalesce(correlation_id, batch_id::text), traceparent, parent_id, NULL, tenant, NULL, NULL, NULL,
       jsonb_build_object('size', size, 'succeeded', succeeded, 'failed', failed, 'cancelled', cancelled,
                          'skipped', skipped, 'open', closed_at IS NULL)
  FROM {schema}.batches;

-- An action on many rows is one line of the audit, whose count grows with each page.
CREATE INDEX audit_at ON {schema}.audit (at);

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT ON {schema}.story TO {schema}_worker;
        GRANT UPDATE (count) ON {schema}.audit TO {schema}_worker;
    END IF;
END
$do$;
