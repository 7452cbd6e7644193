-- Events that nobody handles, and that the settings say to ignore: what would be dead letters is dismissed
-- at once, with the reason.
-- parameters: $1 bigint[] ids, $2 text error (a JSON object)
-- returns: nothing (the command tag counts the rows)
-- locks: the rows (held already: by themselves, or by their buckets)
WITH gone AS (
    DELETE FROM {schema}.events WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting') RETURNING *
)
INSERT INTO {schema}.events_history
       (id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
        entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, status,
        attempts, crashes, run_at, errors, fingerprint, body_id, body_at, body_bytes, occurred_at,
        created_at, updated_at, finished_at, origin_kind, origin_id)
SELECT id, event_id, topic, mode, type, schema_version, source, ordering_key, bucket, dedup_key, tenant,
       entity_type, entity_id, payload, headers, correlation_id, causation_id, traceparent, 'dismissed',
       attempts, crashes, run_at,
       coalesce(errors, '[]') || (jsonb_build_object('at', clock_timestamp()) || $2::jsonb),
       'ignored:' || type, body_id, body_at, body_bytes, occurred_at, created_at, clock_timestamp(),
       clock_timestamp(), origin_kind, origin_id
  FROM gone
