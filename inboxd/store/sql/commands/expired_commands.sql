-- A page of commands that have not started by their expires_at, whatever kept them from it, also if others hold them.
-- parameters: $1 timestamptz, $2 bigint expires_at and id of the last row of the page before (null, 0: none),
--             $3 integer rows
-- returns: expires_at, id of each, in this order
-- locks: nothing
SELECT c.expires_at, c.id FROM {schema}.commands c
 WHERE c.expires_at IS NOT NULL AND c.attempts = 0 AND c.crashes = 0 AND c.status IN ('pending', 'waiting')
   AND c.expires_at <= statement_timestamp() AND (c.expires_at, c.id) > (coalesce($1::timestamptz, '-infinity'), $2::bigint)
 ORDER BY c.expires_at, c.id LIMIT $3::integer
