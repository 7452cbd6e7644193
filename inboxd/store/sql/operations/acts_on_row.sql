-- Audit entries that name a row by its number, newest first, among the newest ones of a span of time. Views of contents
-- are left out.
-- parameters: $1 text events or commands, $2 bigint the row's id, $3 timestamptz from, $4 timestamptz up to (null: now),
--             $5 integer entries to look at, $6 integer entries to return
-- returns: of each entry that matches, or one row without an entry if none does: id, at, actor, action, reason; and in
--          each row: looked (how many entries were looked at), low_at (when the oldest of them was made)
-- locks: nothing
WITH looked AS MATERIALIZED (
    SELECT id, at, actor, action, target, reason FROM {schema}.audit
     WHERE at >= $3::timestamptz AND at <= coalesce($4::timestamptz, 'infinity') ORDER BY at DESC LIMIT $5::integer
)
SELECT found.*, whole.looked, whole.low_at
  FROM (SELECT count(*) AS looked, min(at) AS low_at FROM looked) whole
  LEFT JOIN (SELECT id, at, actor, action, reason FROM looked
              WHERE action <> 'view' AND starts_with(target, $1::text || ' ')
                AND target ~ ('^' || $1 || ' ([0-9]+, )*' || $2::bigint || '(,| of endpoint |$)')
              ORDER BY at DESC, id DESC LIMIT $6::integer) found ON true
 ORDER BY found.at DESC, found.id DESC
