-- Replays of rows: as a new row, or in place.
-- parameters: $1 text[] kinds, $2 bigint[] numbers: the rows; $3 integer replays at most of each
-- returns: kind, old_id, new_id, at, actor, reason; the oldest first
-- locks: nothing
SELECT r.kind, r.old_id, r.new_id, r.at, r.actor, r.reason
  FROM unnest($1::text[], $2::bigint[]) AS row(kind, id)
 CROSS JOIN LATERAL (
     SELECT * FROM (SELECT * FROM {schema}.replays r WHERE r.kind = row.kind AND r.old_id = row.id OFFSET 0) each
      ORDER BY at DESC LIMIT $3) r
 ORDER BY r.at
