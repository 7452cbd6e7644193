-- The dependencies of rows: the other ends of their edges.
-- parameters: $1 uuid[] rows, $2 integer edges at most
-- returns: waiting (uuid), condition, kind, id, type, status
-- locks: nothing
SELECT d.waiting, d.condition, s.kind, s.id, s.type, s.status
  FROM (SELECT * FROM {schema}.dependencies WHERE waiting = ANY ($1::uuid[]) LIMIT $2) d
 CROSS JOIN LATERAL (SELECT * FROM (SELECT hot, kind, id, type, status FROM {schema}.story WHERE uuid = d.needs OFFSET 0) each
                      ORDER BY hot DESC, id DESC LIMIT 1) s
 ORDER BY d.waiting, s.kind, s.id
