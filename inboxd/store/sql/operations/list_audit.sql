-- What operators did, the newest first.
-- parameters: each null for any: $1 text actor (a part of it), $2 text action (its first word or all of it), $3 text that
--             the target contains, $4 timestamptz since, $5 bigint ids below; then $6 integer limit
-- returns: id, at, actor, action, target, reason, count
-- locks: nothing
SELECT id, at, actor, action, target, reason, count FROM {schema}.audit
 WHERE id < coalesce($5::bigint, 9223372036854775807)
   AND ($1::text IS NULL OR strpos(lower(actor), lower($1)) > 0)
   AND ($2::text IS NULL OR $2 IN (action, split_part(action, ' ', 1)))
   AND ($3::text IS NULL OR strpos(lower(target), lower($3)) > 0)
   AND ($4::timestamptz IS NULL OR at >= $4)
 ORDER BY id DESC LIMIT $6
