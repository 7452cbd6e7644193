-- The next commands that a bulk action's filter matches, in the order of ids.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text queue, $4 text[] tenants,
--             $5 timestamptz since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches, $9 timestamptz until, $10 text entity_type, $11 text entity_id,
--             $12 text what $5 and $9 refer to: ended, failed, done, waiting (null: created);
--             then $13 bigint ids above, $14 bigint ids up to, $15 integer limit
-- returns: id
-- locks: nothing
SELECT c.id FROM {schema}.commands c
 WHERE c.status = ANY ($1::text[])
   AND ($2::text IS NULL OR c.type = $2)
   AND ($7::text IS NULL OR c.fingerprint = $7)
   AND {meant command c}
   AND c.id > $13::bigint AND c.id <= $14::bigint
 ORDER BY c.id LIMIT $15
