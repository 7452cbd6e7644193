-- A few rows that an operator sees before a bulk action.
-- parameters: $1 bigint[] ids
-- returns: id, type, lane (topic, queue), status, tenant, created_at, error (the newest, shortened)
-- locks: nothing
SELECT id, type, {topic or queue} AS lane, status, tenant, created_at, {content text: left(errors -> -1 ->> 'error', 200)} AS error
  FROM {schema}.{table} WHERE id = ANY ($1::bigint[]) ORDER BY id
