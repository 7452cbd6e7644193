-- The children of rows and the members of their batches: of each the first few (members last; dead letters, running ones
-- and replays before the others), and the numbers by status. At most $4 children per parent are looked at, except
-- children of the same event's row in another topic: that row has the same uuid, and only the origin tells them apart. A
-- row that has only a causation id is a child of both.
-- parameters: $1 uuid[] parents, $2 bigint[] the batch that each is (null: none), $3 timestamptz when the
--             first of them was made, $4 integer children looked at, $5 integer children returned,
--             $6 text[] and $7 bigint[] kind and id of each parent
-- returns: parent_kind, parent_id, looked (jsonb: status -> how many), and rows of the view story
-- locks: nothing
WITH running AS MATERIALIZED (
    SELECT {story of s} FROM {schema}.story s
     WHERE s.hot AND s.kind = 'command' AND s.status = 'running'
       AND s.worker_id = ANY (ARRAY(SELECT w.id FROM {schema}.workers w WHERE w.state IN ('running', 'draining')))
       AND (s.causation_id = ANY ($1::uuid[]) OR s.batch_id = ANY ($2::bigint[]))
), found AS MATERIALIZED (
    SELECT p.kind AS parent_kind, p.id AS parent_id,
           row_number() OVER (PARTITION BY p.kind, p.id
                              ORDER BY c.batch_id IS NOT DISTINCT FROM p.batch, c.status <> 'failed',
                                       c.status <> 'running', c.replay_of IS NULL, c.id) AS place,
           c.*
      FROM unnest($1::uuid[], $2::bigint[], $6::text[], $7::bigint[]) AS p(uuid, batch, kind, id)
     CROSS JOIN LATERAL (
         (SELECT {story of s} FROM {schema}.story s
           WHERE s.hot AND s.kind = 'command' AND s.causation_id = p.uuid AND s.batch_id IS NULL
             AND (s.origin_kind IS DISTINCT FROM p.kind OR s.origin_id IS NULL OR s.origin_id = p.id)
             AND s.status LIKE 'failed' LIMIT $4)
         UNION
         (SELECT {story of s} FROM {schema}.story s
           WHERE s.causation_id = p.uuid AND s.batch_id IS NULL AND s.status <> 'running'
             AND (s.origin_kind IS DISTINCT FROM p.kind OR s.origin_id IS NULL OR s.origin_id = p.id)
             AND (s.finished_at IS NULL OR s.finished_at >= $3::timestamptz) LIMIT $4)
         UNION
         (SELECT {story of s} FROM {schema}.story s
           WHERE s.hot AND s.kind = 'command' AND s.batch_id = p.batch AND s.status LIKE 'failed' LIMIT $4)
         UNION
         (SELECT {story of s} FROM {schema}.story s
           WHERE s.batch_id = p.batch AND s.status <> 'running'
             AND (s.finished_at IS NULL OR s.finished_at >= $3::timestamptz) LIMIT $4)
         UNION
         (SELECT {story of s} FROM {schema}.story s
           WHERE s.kind = 'batch' AND s.status = 'running' AND s.causation_id = p.uuid AND s.batch_id IS NULL
             AND (s.origin_kind IS DISTINCT FROM p.kind OR s.origin_id IS NULL OR s.origin_id = p.id) LIMIT $4)
         UNION
         (SELECT {story of s} FROM {schema}.story s
           WHERE s.kind = 'batch' AND s.status = 'running' AND s.batch_id = p.batch LIMIT $4)
         UNION
         (SELECT r.* FROM running r
           WHERE (r.causation_id = p.uuid AND r.batch_id IS NULL
                  AND (r.origin_kind IS DISTINCT FROM p.kind OR r.origin_id IS NULL OR r.origin_id = p.id))
              OR r.batch_id = p.batch LIMIT $4)
     ) c
), looked AS (
    SELECT parent_kind, parent_id, jsonb_object_agg(status, count) AS looked
      FROM (SELECT parent_kind, parent_id, status, count(*) FROM found GROUP BY parent_kind, parent_id, status) AS each
     GROUP BY parent_kind, parent_id
)
SELECT found.*, looked.looked
  FROM found JOIN looked USING (parent_kind, parent_id)
 WHERE found.place <= $5::integer
 ORDER BY found.parent_kind, found.parent_id, found.id, found.kind DESC
