-- Take one event by id, to run it alone.
-- Of two statuses, since a plan that was made while the table was empty would take «status = 'pending'»
-- for an invitation to walk over the whole index of pending rows.
-- parameters: $1 bigint id
-- returns: as claim_events.sql, one row at most, lane = 0; of an event in a line also bucket and place;
--          ready (true), behind (false): the caller has seen to that
-- locks: the row, FOR UPDATE until the transaction ends
SELECT e.id, e.event_id, e.topic, e.type, e.schema_version, {schema}.beginning(e.source) AS source,
       {schema}.beginning(e.tenant) AS tenant, {schema}.beginning(e.entity_type) AS entity_type,
       {schema}.beginning(e.entity_id) AS entity_id, e.payload, {schema}.light_headers(e.headers) AS headers,
       {schema}.headers_weight(e.headers) AS headers_bytes, {schema}.beginning(e.correlation_id) AS correlation_id,
       e.causation_id, {schema}.beginning(e.traceparent) AS traceparent, e.attempts, e.crashes,
       date_part('epoch', e.run_at) AS run_at, e.body_id, e.body_at, e.body_bytes,
       e.ordering_key, nullif(e.occurred_at, e.run_at) AS occurred_at, date_part('epoch', e.created_at) AS created_at,
       date_part('epoch', clock_timestamp() - e.run_at) AS waited,
       date_part('epoch', clock_timestamp() - e.created_at) AS age, 0 AS lane,
       e.bucket, e.place, true AS ready, false AS behind
  FROM {schema}.events e
 WHERE e.id = $1 AND e.status IN ('pending', 'waiting')
   FOR UPDATE SKIP LOCKED
