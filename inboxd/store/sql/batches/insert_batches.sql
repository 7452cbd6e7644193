-- Insert batches that handlers made, as members of no batch or of existing batches.
-- An empty one gets a progress row, in case its creator dies before the fold that follows the commit.
-- parameters: arrays, one entry a batch: $1 uuid[] ids, $2 text[] kinds, $3 text[] names,
--             $4 bigint[] the batches of which they are members (null: none), $5 text[] tenants,
--             $6 bigint[] sizes, $7 integer[] unmet prerequisites, $8 boolean[] awaited,
--             $9 double precision[] seconds until an open one expires (null: it is closed),
--             $10 text[] origin kinds, $11 bigint[] origin ids, $12 text[] correlation ids,
--             $13 uuid[] causation ids, $14 text[] traceparents, $15 text[] types
-- returns: id, batch_id of each, in no order
-- locks: the new rows
WITH made AS (
    INSERT INTO {schema}.batches
           (batch_id, kind, name, type, parent_id, tenant, size, needs, awaited, status, closed_at, expires_at,
            origin_kind, origin_id, correlation_id, causation_id, traceparent)
    SELECT id, kind, coalesce(name, ''), coalesce(type, ''), parent_id, tenant, size, needs, awaited,
           CASE WHEN needs > 0 THEN 'waiting' ELSE 'pending' END,
           CASE WHEN expires IS NULL THEN clock_timestamp() END,
           clock_timestamp() + make_interval(secs => expires),
           origin_kind, origin_id, correlation_id, causation_id, traceparent
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[],
                  $7::integer[], $8::boolean[], $9::double precision[], $10::text[], $11::bigint[],
                  $12::text[], $13::uuid[], $14::text[], $15::text[])
           AS t(id, kind, name, parent_id, tenant, size, needs, awaited, expires, origin_kind,
                origin_id, correlation_id, causation_id, traceparent, type)
    RETURNING id, batch_id, size, closed_at
), empty AS (
    INSERT INTO {schema}.batch_progress (batch_id)
    SELECT id FROM made WHERE size = 0 AND closed_at IS NOT NULL
)
SELECT id, batch_id FROM made
