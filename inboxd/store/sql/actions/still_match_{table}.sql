-- The locked rows that a bulk action's filter still matches.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz created since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none); then $9 bigint[] ids
-- returns: id
-- locks: nothing
SELECT h.id
  FROM unnest($9::bigint[]) AS given(id)
 CROSS JOIN LATERAL (
     SELECT r.id, r.status, r.type, r.{topic or queue}, r.tenant, r.created_at, r.fingerprint,
            {NULL::bigint or r.batch_id} AS batch_id, {content jsonb: r.errors} AS errors
       FROM {schema}.{table} r WHERE r.id = given.id OFFSET 0) h
 WHERE h.status = ANY ($1::text[])
   AND ($2::text IS NULL OR h.type = $2)
   AND ($3::text IS NULL OR h.{topic or queue} = $3)
   AND ($4::text[] IS NULL OR h.tenant = ANY ($4))
   AND ($5::timestamptz IS NULL OR h.created_at >= $5)
   AND ($6::text IS NULL OR strpos(lower(h.errors -> -1 ->> 'error'), lower($6)) > 0)
   AND ($7::text IS NULL OR h.fingerprint = $7)
   AND ($8::bigint[] IS NULL OR {false or h.batch_id = ANY ($8)})
