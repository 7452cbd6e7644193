-- Deliveries of an endpoint for a list, newest first, hot rows and history together; as `list_commands`. What is
-- delivered is not returned: of a payload that is stored apart nothing is known here.
--
-- OFFSET 0: each half walks its index on id from the newest row down, and stops at the limit, whatever is believed of
-- how many rows the endpoint has.
-- parameters: $1 text queue; each null for any: $2 text[] statuses, $3 timestamptz created since, $4 bigint ids below;
--   then $5 integer limit, $6 boolean hot rows, $7 boolean history
-- returns: id, command_id, message_id, message_type, status, attempts, run_at, created_at, finished_at, duration,
--   answer (the result of one that succeeded: JSON), error (the newest, shortened)
-- locks: nothing
(SELECT id, command_id, payload ->> 'id' AS message_id, payload ->> 'type' AS message_type, status, attempts, run_at,
        created_at, NULL::timestamptz AS finished_at, NULL::interval AS duration, NULL::jsonb AS answer,
        left(errors -> -1 ->> 'error', 200) AS error
   FROM (SELECT * FROM {schema}.commands
          WHERE $6::boolean AND id < coalesce($4::bigint, 9223372036854775807)
          ORDER BY id DESC OFFSET 0) AS hot
  WHERE queue = $1
    AND ($2::text[] IS NULL OR status = ANY ($2))
    AND ($3::timestamptz IS NULL OR created_at >= $3)
  LIMIT $5)
UNION ALL
(SELECT id, command_id, payload ->> 'id', payload ->> 'type', status, attempts, run_at, created_at, finished_at,
        duration, result, left(errors -> -1 ->> 'error', 200)
   FROM (SELECT * FROM {schema}.commands_history
          WHERE $7::boolean AND id < coalesce($4::bigint, 9223372036854775807)
            -- Nothing finishes before it is made: leaves out the partitions of older days.
            AND finished_at >= coalesce($3::timestamptz, '-infinity')
          ORDER BY id DESC OFFSET 0) AS settled
  WHERE queue = $1
    AND ($2::text[] IS NULL OR status = ANY ($2))
    AND ($3::timestamptz IS NULL OR created_at >= $3)
  LIMIT $5)
ORDER BY id DESC LIMIT $5
