-- The newest audit entry for an action on a target, among the newest entries.
-- parameters: $1 text action (its first word), $2 text with which the target ends, $3 integer entries to look at
-- returns: id (0: no entry among them matches)
-- locks: nothing
SELECT coalesce(max(id), 0)
  FROM (SELECT id, action, target FROM {schema}.audit ORDER BY id DESC LIMIT $3::integer) newest
 WHERE split_part(action, ' ', 1) = $1::text AND right(target, length($2::text)) = $2
