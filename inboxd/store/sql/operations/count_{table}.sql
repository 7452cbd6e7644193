-- The number of rows that a bulk action's filter matches, and the last of them.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz created since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none)
-- returns: count, last (the largest id; 0: no row matches)
-- locks: nothing
SELECT count(*) AS count, coalesce(max(id), 0) AS last FROM {schema}.{table}
 WHERE status = ANY ($1::text[])
   AND ($2::text IS NULL OR type = $2)
   AND ($3::text IS NULL OR {topic or queue} = $3)
   AND ($4::text[] IS NULL OR tenant = ANY ($4))
   AND ($5::timestamptz IS NULL OR created_at >= $5)
   AND ($6::text IS NULL OR strpos(lower({content text: errors -> -1 ->> 'error'}), lower($6)) > 0)
   AND ($7::text IS NULL OR fingerprint = $7)
   AND ($8::bigint[] IS NULL OR {false or batch_id = ANY ($8)})
