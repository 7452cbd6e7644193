-- The ordering keys of rows that have come into a queue's lines since a moment, and of rows that are due again.
-- parameters: $1 text queue, $2 text[] types, $3 double precision[] and $4 bigint[] cursors as in
--             claim_commands.sql, $5 integer rows of each type
-- returns: type, key, run_at (seconds since the epoch), id of each row; run_at null: it is due again
-- locks: nothing
SELECT since.type, came.ordering_key AS key, date_part('epoch', came.run_at) AS run_at, came.id
  FROM unnest($2::text[], $3::double precision[], $4::bigint[]) AS since(type, after_at, after_id)
 CROSS JOIN LATERAL (
     SELECT c.ordering_key, c.run_at, c.id FROM {schema}.commands c
      WHERE c.status LIKE 'waiting' AND c.needs = 0 AND c.ordering_key IS NOT NULL AND c.line_at IS NULL
        AND c.queue = $1 AND c.type = since.type AND c.run_at <= now()
        AND (c.run_at, c.id)
            > (least(to_timestamp(since.after_at), now() - interval '100 ms'), since.after_id)
      ORDER BY c.run_at, c.id LIMIT $5) came
UNION ALL
SELECT since.type, due.ordering_key, NULL, due.id
  FROM unnest($2::text[]) AS since(type)
 CROSS JOIN LATERAL (
     SELECT c.ordering_key, c.id FROM {schema}.commands c
      WHERE c.status LIKE 'waiting' AND (c.line_at IS NULL)::integer = 0
        AND c.queue = $1 AND c.type = since.type AND c.run_at <= now()
      ORDER BY c.run_at, c.id LIMIT $5) due
