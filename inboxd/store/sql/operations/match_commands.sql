-- The next commands that a bulk action's filter matches, in the order of ids.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text queue, $4 text[] tenants,
--             $5 timestamptz created since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches; then $9 bigint ids above, $10 bigint ids up to, $11 integer limit
-- returns: id
-- locks: nothing
SELECT id FROM {schema}.commands
 WHERE status = ANY ($1::text[])
   AND ($2::text IS NULL OR type = $2)
   AND ($3::text IS NULL OR queue = $3)
   AND ($4::text[] IS NULL OR tenant = ANY ($4))
   AND ($5::timestamptz IS NULL OR created_at >= $5)
   AND ($6::text IS NULL OR strpos(lower({content text: errors -> -1 ->> 'error'}), lower($6)) > 0)
   AND ($7::text IS NULL OR fingerprint = $7)
   AND ($8::bigint[] IS NULL OR batch_id = ANY ($8))
   AND id > $9::bigint AND id <= $10::bigint
 ORDER BY id LIMIT $11
