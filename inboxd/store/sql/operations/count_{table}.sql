-- The number of rows that a bulk action's filter matches, and the last of them.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none), $9 timestamptz until, $10 text entity_type, $11 text entity_id,
--             $12 text what $5 and $9 refer to: ended, failed, done, waiting (null: created)
-- returns: count, last (the largest id; 0: no row matches)
-- locks: nothing
SELECT count(*) AS count, coalesce(max(h.id), 0) AS last FROM {schema}.{table} h
 WHERE h.status = ANY ($1::text[])
   AND ($2::text IS NULL OR h.type = $2)
   AND ($7::text IS NULL OR h.fingerprint = $7)
   AND {meant {kind} h}
