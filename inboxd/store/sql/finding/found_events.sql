-- Events for a page of a list, without payloads.
-- parameters: $1 bigint[] ids of unsettled ones, $2 bigint[] ids of settled ones, $3 timestamptz[] their finished_at:
--             of each of these one partition is read; $4 and $5 timestamptz the earliest and the latest of these
-- returns: id, event_id, topic, type, status, attempts, tenant, run_at, created_at, finished_at, duration,
--          correlation_id, error (the newest, shortened), by id descending
-- locks: nothing
SELECT e.id, e.event_id, e.topic, e.type, e.status, e.attempts, e.tenant, e.run_at, e.created_at,
       NULL::timestamptz AS finished_at, NULL::interval AS duration,
       coalesce(e.correlation_id, e.event_id::text) AS correlation_id, left({content text: e.errors -> -1 ->> 'error'}, 200) AS error
  FROM unnest($1::bigint[]) AS t(id)
  JOIN {schema}.events e ON e.id BETWEEN t.id AND t.id
UNION ALL
SELECT h.id, h.event_id, h.topic, h.type, h.status, h.attempts, h.tenant, h.run_at, h.created_at,
       h.finished_at, h.duration, coalesce(h.correlation_id, h.event_id::text), h.error
  FROM unnest($2::bigint[], $3::timestamptz[]) AS t(id, finished_at)
 CROSS JOIN LATERAL (SELECT s.id, s.event_id, s.topic, s.type, s.status, s.attempts, s.tenant, s.run_at, s.created_at,
                             s.finished_at, s.duration, s.correlation_id,
                             left({content text: s.errors -> -1 ->> 'error'}, 200) AS error
                       FROM {schema}.events_history s
                      WHERE s.id BETWEEN t.id AND t.id AND s.finished_at = t.finished_at
                        AND s.finished_at BETWEEN $4::timestamptz AND $5::timestamptz OFFSET 0) h
 ORDER BY id DESC
