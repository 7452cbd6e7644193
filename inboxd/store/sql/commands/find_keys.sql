-- The ordering keys of a queue that have a line, in order, and whether they are free. One or two probes per key,
-- however long its line is.
-- parameters: $1 text queue, $2 text: after this key (null: from the first), $3 integer keys, $4 text and
--             $5 text: the lowest and the highest status of rows that hold a key, $6 integer: how many rows
--             may hold it
-- returns: key, free
-- locks: nothing
WITH RECURSIVE line(key) AS (
    (SELECT first.ordering_key FROM (
        (SELECT c.ordering_key FROM {schema}.commands c
          WHERE $2::text IS NULL AND c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL
            AND c.queue = $1 AND c.ordering_key IS NOT NULL
          ORDER BY c.queue, c.ordering_key LIMIT 1)
        UNION ALL
        (SELECT c.ordering_key FROM {schema}.commands c
          WHERE c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL
            AND c.queue = $1 AND c.ordering_key > $2
          ORDER BY c.queue, c.ordering_key LIMIT 1)) AS first)
    UNION ALL
    SELECT following.ordering_key
      FROM line
     CROSS JOIN LATERAL (
         SELECT c.ordering_key FROM {schema}.commands c
          WHERE c.status = 'waiting' AND c.needs = 0 AND c.line_at IS NULL
            AND c.queue = $1 AND c.ordering_key > line.key
          ORDER BY c.queue, c.ordering_key LIMIT 1) following
)
SELECT key,
       (SELECT count(*) FROM (
            SELECT FROM {schema}.commands c
             WHERE c.queue = $1 AND c.ordering_key = key AND c.line_at IS NOT NULL
               AND c.status BETWEEN $4 AND $5
             LIMIT $6) AS held) < $6 AS free
  FROM line LIMIT $3
