-- The payloads of bodies that were copied forward after their rows had been claimed.
-- parameters: $1 bigint[] body ids, $2 timestamptz[] where each was
-- returns: id, payload
-- locks: nothing
SELECT wanted.id, moved.payload
  FROM unnest($1::bigint[], $2::timestamptz[]) AS wanted(id, created_at)
 CROSS JOIN LATERAL (
     SELECT b.payload FROM {schema}.bodies b
      WHERE b.id = wanted.id AND b.created_at > wanted.created_at
      ORDER BY b.created_at DESC LIMIT 1) AS moved
