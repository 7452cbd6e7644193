-- Move events that their handlers finished from the hot table into history.
-- The rows are those that this transaction claimed: their row locks are the fence.
-- parameters: $1 bigint[] ids, $2 double precision[] seconds that each took, $3 uuid worker
-- returns: nothing (the command tag counts the rows)
-- locks: the rows (held already)
WITH done AS (
    SELECT * FROM unnest($1::bigint[], $2::double precision[]) AS t(id, seconds)
), gone AS (
    DELETE FROM {schema}.events e USING done
     WHERE e.id BETWEEN done.id AND done.id RETURNING e.*, done.seconds
)
INSERT INTO {schema}.events_history
       (id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
        entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, status,
        attempts, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
        created_at, updated_at, finished_at, duration, worker_id, origin_kind, origin_id)
SELECT id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
       entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, 'succeeded',
       attempts + 1, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
       created_at, clock_timestamp(), clock_timestamp(), make_interval(secs => seconds), $3::uuid, origin_kind,
       origin_id
  FROM gone
