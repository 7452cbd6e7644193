-- A portion of a line's events, in order.
-- parameters: $1 text topic, $2 text ordering key, $3 bigint: behind this place, $4 bigint: up to this one,
--             $5 integer rows
-- returns: as claim_events.sql; place; lane (1)
-- locks: nothing: whoever changes the rows has the bucket first, as the caller has
SELECT e.id, e.event_id, e.topic, e.type, e.schema_version, {schema}.beginning(e.source) AS source,
       {schema}.beginning(e.tenant) AS tenant, {schema}.beginning(e.entity_type) AS entity_type,
       {schema}.beginning(e.entity_id) AS entity_id, e.payload, {schema}.light_headers(e.headers) AS headers,
       {schema}.headers_weight(e.headers) AS headers_bytes, {schema}.beginning(e.correlation_id) AS correlation_id,
       e.causation_id, {schema}.beginning(e.traceparent) AS traceparent, e.attempts, e.crashes,
       date_part('epoch', e.run_at) AS run_at, e.body_id, e.body_at, e.body_bytes,
       e.ordering_key, nullif(e.occurred_at, e.run_at) AS occurred_at, date_part('epoch', e.created_at) AS created_at,
       date_part('epoch', clock_timestamp() - e.run_at) AS waited,
       date_part('epoch', clock_timestamp() - e.created_at) AS age, e.place, 1 AS lane
  FROM {schema}.events e
 WHERE e.place IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.place > $3 AND e.place <= $4
 ORDER BY e.place LIMIT $5
