-- Move a stretch of a line, whose list its handler finished, into history. What was set back from it has
-- left the line before. The bucket, which the caller has, is the fence.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last place, $5 double precision
--             seconds that each event took, $6 uuid worker
-- returns: type, rows
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.events e
     WHERE e.place IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.place BETWEEN $3 AND $4
    RETURNING *
), kept AS (
    INSERT INTO {schema}.events_history
           (id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
            entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, status,
            attempts, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
            created_at, updated_at, finished_at, duration, worker_id, origin_kind, origin_id)
    SELECT id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
           entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, 'succeeded',
           attempts + 1, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
           created_at, clock_timestamp(), clock_timestamp(), make_interval(secs => $5), $6::uuid, origin_kind,
           origin_id
      FROM gone
)
SELECT type, count(*)::integer AS rows FROM gone GROUP BY type
