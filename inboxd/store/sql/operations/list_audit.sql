-- Audit entries, newest first, among some of the newest ones.
-- parameters: each null for any: $1 text actor (a part of it), $2 text action (its first word or all of it), $3 text that
--             the target contains, $4 timestamptz since, $5 bigint ids below; then $6 integer limit, $7 integer entries
--             to look at
-- returns: of each entry that matches, or one row without an entry if none does: id, at, actor, action, target, reason,
--          count; and in each row: looked (how many entries were looked at), low (the lowest id of them), low_at
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT id, at, actor, action, target, reason, count FROM {schema}.audit
     WHERE id < coalesce($5::bigint, 9223372036854775807) AND ($4::timestamptz IS NULL OR at >= $4)
     ORDER BY id DESC LIMIT $7::integer
)
SELECT found.*, whole.looked, whole.low, whole.low_at
  FROM (SELECT count(*) AS looked, min(id) AS low, min(at) AS low_at FROM looked) whole
  LEFT JOIN (SELECT * FROM looked
              WHERE ($1::text IS NULL OR strpos(lower(actor), lower($1)) > 0)
                AND ($2::text IS NULL OR $2 IN (action, split_part(action, ' ', 1)))
                AND ($3::text IS NULL OR strpos(lower(target), lower($3)) > 0)
              ORDER BY id DESC LIMIT $6::integer) found ON true
 ORDER BY found.id DESC
