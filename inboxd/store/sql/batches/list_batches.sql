-- Look through batches and workflows, from the highest id down, and return those that match a list's filter. The limit counts
-- the rows that are looked at, not the matches: a rare match costs no more than a common one.
-- parameters: each null for any: $1 text kind, $2 text[] statuses, $3 text tenant, $4 text name,
--             $5 timestamptz created since, $6 boolean open, $7 text type, $8 bigint ids below, $9 timestamptz created
--             before, $10 bigint ids above; then $11 integer rows to look at, $12 integer rows to return
-- returns: looked (how many rows, null: of a full page), low (the lowest id looked at), low_created_at, ended (the earliest
--          finished_at looked at), place (which of the rows looked at it is), id, batch_id, kind, name, type, status, size,
--          unsettled, succeeded, failed, cancelled, skipped, tenant, parent_id, origin_kind, origin_id, correlation_id,
--          created_at, closed_at, expires_at, expired_at, failed_at, finished_at, duration; one row without an id if none
--          matches
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT id, created_at, finished_at, row_number() OVER (ORDER BY id DESC) AS place,
           ($1::text IS NULL OR kind = $1)
           AND ($2::text[] IS NULL OR status = ANY ($2))
           AND ($3::text IS NULL OR tenant = $3)
           AND ($4::text IS NULL OR name = $4)
           AND ($5::timestamptz IS NULL OR created_at >= $5)
           AND ($9::timestamptz IS NULL OR created_at < $9)
           AND ($6::boolean IS NULL OR (closed_at IS NULL) = $6)
           AND ($7::text IS NULL OR type = $7) AS hit
      FROM {schema}.batches
     WHERE id < coalesce($8::bigint, 9223372036854775807) AND id > coalesce($10::bigint, -1)
     ORDER BY id DESC LIMIT $11::integer
), hits AS MATERIALIZED (
    SELECT id, place FROM looked WHERE hit LIMIT $12::integer
), far AS (
    SELECT nullif(count(*), 0) AS looked, min(id) AS low, (array_agg(created_at ORDER BY id))[1] AS low_created_at,
           min(finished_at) AS ended
      FROM looked WHERE (SELECT count(*) FROM hits) < $12
)
SELECT far.looked, far.low, far.low_created_at, far.ended, hits.place, b.id, b.batch_id, b.kind, b.name, b.type, b.status,
       b.size, b.size - b.succeeded - b.failed - b.cancelled - b.skipped AS unsettled, b.succeeded, b.failed, b.cancelled,
       b.skipped, b.tenant, b.parent_id, b.origin_kind, b.origin_id, b.correlation_id, b.created_at, b.closed_at,
       b.expires_at, b.expired_at, b.failed_at, b.finished_at, b.finished_at - b.created_at AS duration
  FROM far
  LEFT JOIN hits ON true
  LEFT JOIN {schema}.batches b ON b.id BETWEEN hits.id AND hits.id
 ORDER BY b.id DESC
