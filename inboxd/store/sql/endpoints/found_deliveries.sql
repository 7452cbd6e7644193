-- Deliveries of an endpoint for a list, as found_commands.sql returns commands. Contents are not returned; for a payload
-- in bodies, message_id and message_type are null.
-- parameters: $1 bigint[] ids of unsettled ones, $2 bigint[] ids of settled ones, $3 timestamptz[] their finished_at:
--             of each of these one partition is read; $4 and $5 timestamptz the earliest and the latest of these
-- returns: id, command_id, message_id, message_type, status, attempts, run_at, created_at, finished_at, duration,
--   answer (the result of one that succeeded: JSON), error (the newest, shortened); by id descending
-- locks: nothing
SELECT c.id, c.command_id, {content text: c.payload ->> 'id'} AS message_id, {content text: c.payload ->> 'type'} AS message_type,
       c.status, c.attempts, c.run_at, c.created_at, NULL::timestamptz AS finished_at, NULL::interval AS duration,
       NULL::jsonb AS answer, {content text: left(c.errors -> -1 ->> 'error', 200)} AS error
  FROM unnest($1::bigint[]) AS t(id)
  JOIN {schema}.commands c ON c.id BETWEEN t.id AND t.id
UNION ALL
SELECT h.id, h.command_id, h.message_id, h.message_type, h.status, h.attempts, h.run_at, h.created_at, h.finished_at,
       h.duration, h.answer, h.error
  FROM unnest($2::bigint[], $3::timestamptz[]) AS t(id, finished_at)
 CROSS JOIN LATERAL (SELECT s.id, s.command_id, {content text: s.payload ->> 'id'} AS message_id,
                            {content text: s.payload ->> 'type'} AS message_type, s.status, s.attempts, s.run_at,
                            s.created_at, s.finished_at, s.duration, {content jsonb: s.result} AS answer,
                            {content text: left(s.errors -> -1 ->> 'error', 200)} AS error
                       FROM {schema}.commands_history s
                      WHERE s.id BETWEEN t.id AND t.id AND s.finished_at = t.finished_at
                        AND s.finished_at BETWEEN $4::timestamptz AND $5::timestamptz OFFSET 0) h
 ORDER BY id DESC
