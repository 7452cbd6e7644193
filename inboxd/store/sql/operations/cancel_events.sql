-- Events that nobody has processed end as cancelled, in history, at once.
-- parameters: $1 bigint[] ids
-- returns: id of each row that was still to be processed
-- locks: the rows (held already)
WITH gone AS (
    DELETE FROM {schema}.events WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting')
    RETURNING *
)
INSERT INTO {schema}.events_history
       (id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
        entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, status,
        attempts, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
        created_at, updated_at, finished_at, origin_kind, origin_id)
SELECT id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
       entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, 'cancelled',
       attempts, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
       created_at, clock_timestamp(), clock_timestamp(), origin_kind, origin_id
  FROM gone
RETURNING id
