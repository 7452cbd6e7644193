-- Events for a list, newest first, hot rows and history together. Each half walks its index on id
-- from the newest row down and stops at the limit; a half that is not wanted is not read at all.
-- Nothing of a payload is returned.
-- parameters: each null for any: $1 text type, $2 text[] statuses, $3 text tenant, $4 text topic,
--             $5 timestamptz created since, $6 bigint ids below; then $7 integer limit,
--             $8 boolean hot rows, $9 boolean history
-- returns: id, event_id, topic, type, status, attempts, tenant, run_at, created_at, finished_at,
--          duration, correlation_id, error (the newest, shortened)
-- locks: nothing
(SELECT id, event_id, topic, type, status, attempts, tenant, run_at, created_at,
        NULL::timestamptz AS finished_at, NULL::interval AS duration,
        coalesce(correlation_id, event_id::text) AS correlation_id,
        left(errors -> -1 ->> 'error', 200) AS error
   FROM {schema}.events
  WHERE $8::boolean
    AND id < coalesce($6::bigint, 9223372036854775807)
    AND ($1::text IS NULL OR type = $1)
    AND ($2::text[] IS NULL OR status = ANY ($2))
    AND ($3::text IS NULL OR tenant = $3)
    AND ($4::text IS NULL OR topic = $4)
    AND ($5::timestamptz IS NULL OR created_at >= $5)
  ORDER BY id DESC LIMIT $7)
UNION ALL
(SELECT id, event_id, topic, type, status, attempts, tenant, run_at, created_at, finished_at, duration,
        coalesce(correlation_id, event_id::text) AS correlation_id, left(errors -> -1 ->> 'error', 200)
   FROM {schema}.events_history
  WHERE $9::boolean
    AND id < coalesce($6::bigint, 9223372036854775807)
    AND ($1::text IS NULL OR type = $1)
    AND ($2::text[] IS NULL OR status = ANY ($2))
    AND ($3::text IS NULL OR tenant = $3)
    AND ($4::text IS NULL OR topic = $4)
    AND ($5::timestamptz IS NULL OR created_at >= $5)
    -- Nothing finishes before it is made: leaves out the partitions of older days.
    AND finished_at >= coalesce($5::timestamptz, '-infinity')
  ORDER BY id DESC LIMIT $7)
ORDER BY id DESC LIMIT $7
