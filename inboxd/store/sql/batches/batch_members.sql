-- Commands in a batch, of some statuses, by ascending id: among $5 unsettled ones, in that order, and among $5 settled
-- ones, in any order. Cancelled without a request is skipped, and a dead letter that was replayed as another row is
-- replayed, as in the counts of the batch.
-- parameters: $1 bigint batch, $2 text[] statuses (null: any), $3 bigint ids above, $4 integer rows, $5 integer rows
--             looked at of each, $6 timestamptz when the batch was created
-- returns: settled (how many settled ones were looked at), high (the last unsettled id that was looked at, null: all
--          were), id, type, status, attempts, created_at, finished_at, duration, error (the newest, shortened); one row
--          without an id if none is found
-- locks: nothing
WITH unsettled AS MATERIALIZED (
    SELECT c.id, c.type, c.status, c.attempts, c.created_at, NULL::timestamptz AS finished_at, NULL::interval AS duration,
           {content text: left(c.errors -> -1 ->> 'error', 200)} AS error, c.status AS outcome
      FROM {schema}.commands c
     WHERE c.batch_id BETWEEN $1::bigint AND $1::bigint AND c.status <> 'running' AND (c.batch_id, c.id) > ($1, $3::bigint)
     ORDER BY c.batch_id, c.id LIMIT $5::integer
), running AS MATERIALIZED (
    SELECT c.id, c.type, c.status, c.attempts, c.created_at, NULL::timestamptz AS finished_at, NULL::interval AS duration,
           {content text: left(c.errors -> -1 ->> 'error', 200)} AS error, c.status AS outcome
      FROM {schema}.commands c
     WHERE c.status = 'running' AND c.batch_id = $1
       AND c.worker_id = ANY (ARRAY(SELECT w.id FROM {schema}.workers w WHERE w.state IN ('running', 'draining')))
     LIMIT $5
), settled AS MATERIALIZED (
    SELECT h.id, h.type, h.status, h.attempts, h.created_at, h.finished_at, h.duration,
           coalesce({reason of h}, {content text: left(h.errors -> -1 ->> 'error', 200)}) AS error,
           CASE {end of h} WHEN 'skipped' THEN 'skipped' WHEN 'failed' THEN 'replayed' ELSE h.status END AS outcome
      FROM {schema}.commands_history h
     WHERE h.batch_id = $1 AND h.finished_at >= $6::timestamptz LIMIT $5
), looked AS (
    SELECT (SELECT count(*) FROM settled)::integer AS settled,
           (SELECT max(u.id) FROM unsettled u HAVING count(*) >= $5) AS high
)
SELECT looked.settled, looked.high, found.*
  FROM looked
  LEFT JOIN LATERAL (
      SELECT m.id, m.type, m.status, m.attempts, m.created_at, m.finished_at, m.duration, m.error
        FROM (SELECT * FROM unsettled UNION ALL SELECT * FROM running UNION ALL SELECT * FROM settled) m
       WHERE m.id > $3 AND (looked.high IS NULL OR m.id <= looked.high) AND ($2::text[] IS NULL OR m.outcome = ANY ($2))
       ORDER BY m.id LIMIT $4::integer) found ON true
 ORDER BY found.id
