-- The payloads of rows with a body.
-- parameters: $1 bigint[] body ids, $2 timestamptz[] when each was stored (finds the partition)
-- returns: id, payload
-- locks: nothing
SELECT b.id, b.payload
  FROM unnest($1::bigint[], $2::timestamptz[]) AS wanted(id, created_at)
  JOIN {schema}.bodies b ON b.id BETWEEN wanted.id AND wanted.id AND b.created_at = wanted.created_at
