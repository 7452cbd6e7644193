-- Give arrivals of a batch topic their positions at the ends of their lines, each with its own due time as run_at, so
-- that any of them, once it is the head, has the time when its chunk is due. A replayed dead letter (it has errors) goes
-- to the front of its line, and is due now. An event whose type no chunk of a living worker takes goes to its lane, where
-- it is kept, instead of waiting for a chunk.
-- Events that were written while the topic was sequential get the mode batch.
-- parameters: $1 text topic, $2 smallint bucket, $3 bigint cursor, $4 bigint bound, $5 integer rows,
--             $6 interval after which an event's chunk is due, $7 timestamptz[] ends of periods, ascending
--             (empty: the topic has no periods); rows after the last one are left for the next call;
--             $8 text[] types that the caller's chunks take
-- returns: ordering_key of each line that has grown (NULL: of events that went to their lanes), rows (their total
--          number), last (the largest id)
-- locks: the rows, and heads before which a row is put; the caller has the bucket since an earlier
--        statement
WITH arrived AS MATERIALIZED (
    SELECT e.id, e.ordering_key, e.created_at, e.errors IS NOT NULL AS again,
           e.type <> ALL ($8::text[]) AND NOT EXISTS (
               SELECT FROM {schema}.workers w
                WHERE w.state IN ('running', 'draining') AND w.subscriptions @> ARRAY[$1 || E'\n' || e.type]
                  AND (cardinality(w.served_topics) = 0 OR $1 = ANY (w.served_topics))) AS strange
      FROM {schema}.events e
     WHERE e.topic = $1 AND e.status = 'waiting' AND e.position IS NULL
       AND (e.bucket, e.id) > ($2::smallint, $3::bigint) AND (e.bucket, e.id) <= ($2::smallint, $4::bigint)
     ORDER BY e.bucket, e.id LIMIT $5
), taken AS MATERIALIZED (
    SELECT * FROM arrived
     WHERE id < coalesce((SELECT min(id) FROM arrived WHERE cardinality($7::timestamptz[]) > 0
                             AND created_at >= ($7::timestamptz[])[cardinality($7::timestamptz[])]),
                         9223372036854775807)
), line AS MATERIALIZED (
    SELECT grown.ordering_key, front.id AS head, coalesce(front.position, 1) AS first, lined_up.position AS last
      FROM (SELECT ordering_key, bool_or(again) AS again FROM taken WHERE NOT strange GROUP BY ordering_key) grown
      LEFT JOIN LATERAL (
         SELECT l.position FROM {schema}.events l
          WHERE l.position IS NOT NULL AND l.topic = $1 AND l.ordering_key = grown.ordering_key
          ORDER BY l.position DESC LIMIT 1) lined_up ON true
      LEFT JOIN LATERAL (
         SELECT h.id, h.position FROM {schema}.events h
          WHERE grown.again AND h.head AND h.topic = $1 AND h.ordering_key = grown.ordering_key
          LIMIT 1) front ON true
), positioned AS MATERIALIZED (
    SELECT a.id, a.again, line.head,
           CASE WHEN a.again THEN line.first - 1 - count(*) OVER side + row_number() OVER (side ORDER BY a.id)
                ELSE coalesce(line.last, 0) + row_number() OVER (side ORDER BY a.id) END AS position,
           line.last IS NULL
           AND row_number() OVER (PARTITION BY a.ordering_key ORDER BY a.again DESC, a.id) = 1 AS leads,
           CASE WHEN a.again THEN clock_timestamp()
                ELSE least(a.created_at + $6::interval,
                           (SELECT min(t.ends_at) FROM unnest($7::timestamptz[]) AS t(ends_at)
                             WHERE t.ends_at > a.created_at)) END AS due_at
      FROM taken a JOIN line USING (ordering_key)
     WHERE NOT a.strange
    WINDOW side AS (PARTITION BY a.ordering_key, a.again)
), lined_up AS (
    UPDATE {schema}.events e
       SET mode = 'batch', position = positioned.position, head = positioned.leads, run_at = positioned.due_at
      FROM positioned WHERE e.id BETWEEN positioned.id AND positioned.id
    RETURNING e.ordering_key, e.id
), aside AS (  -- the trigger of heads finds who comes first now
    UPDATE {schema}.events e SET head = false
     WHERE e.id = ANY (ARRAY(SELECT head FROM positioned WHERE again AND head IS NOT NULL))
), turned_away AS (
    UPDATE {schema}.events e
       SET mode = 'batch', status = 'pending', run_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE e.id = ANY (ARRAY(SELECT id FROM taken WHERE strange))
    RETURNING NULL::text AS ordering_key, e.id
)
SELECT ordering_key, (sum(count(*)) OVER ())::integer AS rows, max(max(id)) OVER () AS last
  FROM (SELECT * FROM lined_up UNION ALL SELECT * FROM turned_away) met GROUP BY ordering_key
