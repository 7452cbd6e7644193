-- Commands for a page of a list, without payloads.
-- parameters: $1 bigint[] ids of unsettled ones, $2 bigint[] ids of settled ones, $3 timestamptz[] their finished_at:
--             of each of these one partition is read; $4 and $5 timestamptz the earliest and the latest of these
-- returns: id, command_id, queue, type, status, attempts, priority, tenant, run_at, created_at, finished_at, duration,
--          origin_kind, origin_id, correlation_id, error (the newest, shortened; or that it was skipped or has
--          expired), by id descending
-- locks: nothing
SELECT c.id, c.command_id, c.queue, c.type, c.status, c.attempts, c.priority, c.tenant, c.run_at, c.created_at,
       NULL::timestamptz AS finished_at, NULL::interval AS duration, c.origin_kind, c.origin_id,
       coalesce(c.correlation_id, c.command_id::text) AS correlation_id, left({content text: c.errors -> -1 ->> 'error'}, 200) AS error
  FROM unnest($1::bigint[]) AS t(id)
  JOIN {schema}.commands c ON c.id BETWEEN t.id AND t.id
UNION ALL
SELECT h.id, h.command_id, h.queue, h.type, h.status, h.attempts, h.priority, h.tenant, h.run_at, h.created_at,
       h.finished_at, h.duration, h.origin_kind, h.origin_id, coalesce(h.correlation_id, h.command_id::text),
       coalesce({reason of h}, h.error)
  FROM unnest($2::bigint[], $3::timestamptz[]) AS t(id, finished_at)
 CROSS JOIN LATERAL (SELECT s.id, s.command_id, s.queue, s.type, s.status, s.attempts, s.priority, s.tenant, s.run_at,
                             s.created_at, s.finished_at, s.duration, s.origin_kind, s.origin_id, s.correlation_id,
                             s.cancel_requested, s.expires_at, left({content text: s.errors -> -1 ->> 'error'}, 200) AS error
                       FROM {schema}.commands_history s
                      WHERE s.id BETWEEN t.id AND t.id AND s.finished_at = t.finished_at
                        AND s.finished_at BETWEEN $4::timestamptz AND $5::timestamptz OFFSET 0) h
 ORDER BY id DESC
