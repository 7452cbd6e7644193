-- Batches and workflows for a list, newest first.
-- parameters: each null for any: $1 text kind, $2 text[] statuses, $3 text tenant, $4 text name,
--             $5 timestamptz created since, $6 boolean open, $7 text type, $8 bigint ids below, $9 timestamptz created
--             before, $10 bigint ids above; then $11 integer limit
-- returns: id, batch_id, kind, name, type, status, size, unsettled, succeeded, failed, cancelled, skipped, tenant,
--          parent_id, origin_kind, origin_id, correlation_id, created_at, closed_at, expires_at, expired_at,
--          failed_at, finished_at, duration
-- locks: nothing
SELECT id, batch_id, kind, name, type, status, size, size - succeeded - failed - cancelled - skipped AS unsettled,
       succeeded, failed, cancelled, skipped, tenant, parent_id, origin_kind, origin_id, correlation_id,
       created_at, closed_at, expires_at, expired_at, failed_at, finished_at,
       finished_at - created_at AS duration
  FROM {schema}.batches
 WHERE id < coalesce($8::bigint, 9223372036854775807) AND id > coalesce($10::bigint, -1)
   AND ($1::text IS NULL OR kind = $1)
   AND ($2::text[] IS NULL OR status || '' = ANY ($2))
   AND ($3::text IS NULL OR tenant = $3)
   AND ($4::text IS NULL OR name = $4)
   AND ($5::timestamptz IS NULL OR created_at >= $5)
   AND ($9::timestamptz IS NULL OR created_at < $9)
   AND ($6::boolean IS NULL OR (closed_at IS NULL) = $6)
   AND ($7::text IS NULL OR type = $7)
 ORDER BY id DESC LIMIT $11
