-- Notices, the newest first: those that are open, or all.
-- parameters: $1 boolean whether only open ones, $2 int most
-- returns: id, cause, kind, subject, began_at, gone_at, ended_at
-- locks: nothing
SELECT id, cause, kind, subject, began_at, gone_at, ended_at
  FROM {schema}.notices
 WHERE ended_at IS NULL OR NOT $1
 ORDER BY id DESC LIMIT $2
