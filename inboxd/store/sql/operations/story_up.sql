-- A row's ancestors: the batch of a member, or else the direct parent. An event that went to several topics has a row with
-- the same uuid in each: the origin tells which one is the parent. If a row has only a causation id, the unsettled or
-- newest of them is returned.
-- parameters: $1 text kind, $2 bigint id, $3 integer rows at most
-- returns: rows of the view story, the given one first
-- locks: nothing
WITH RECURSIVE up AS (
    (SELECT {story of s}, 1 AS step FROM {schema}.story s WHERE s.kind = $1 AND s.id = $2 LIMIT 1)
    UNION ALL
    SELECT parent.*, up.step + 1
      FROM up
     CROSS JOIN LATERAL (
         (SELECT {story of s} FROM {schema}.story s WHERE s.kind = 'batch' AND s.id = up.batch_id)
         UNION ALL
         (SELECT * FROM (
              SELECT {story of s} FROM {schema}.story s WHERE up.batch_id IS NULL AND s.uuid = up.causation_id OFFSET 0) each
           WHERE up.origin_kind IS DISTINCT FROM each.kind OR up.origin_id IS NULL OR up.origin_id = each.id
           ORDER BY hot DESC, id DESC LIMIT 1)
     ) parent
     WHERE up.step < $3::integer
)
SELECT * FROM up ORDER BY step
