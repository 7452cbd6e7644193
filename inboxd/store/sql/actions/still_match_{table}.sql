-- The locked rows that a bulk action's filter still matches.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none), $9 timestamptz until, $10 text entity_type, $11 text entity_id,
--             $12 text what $5 and $9 refer to: ended, failed, done, waiting (null: created); then $13 bigint[] ids
-- returns: id
-- locks: nothing
SELECT h.id
  FROM unnest($13::bigint[]) AS given(id)
 CROSS JOIN LATERAL (
     SELECT r.id, r.status, r.type, r.{topic or queue}, r.tenant, r.created_at, r.updated_at,
            r.entity_type, r.entity_id, r.fingerprint,
            {NULL::bigint or r.batch_id} AS batch_id, {content jsonb: r.errors} AS errors
       FROM {schema}.{table} r WHERE r.id = given.id OFFSET 0) h
 WHERE h.status = ANY ($1::text[])
   AND ($2::text IS NULL OR h.type = $2)
   AND ($7::text IS NULL OR h.fingerprint = $7)
   AND {meant {kind} h}
