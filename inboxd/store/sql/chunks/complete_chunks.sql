-- Make lines due now that are full, or that have an event of each expected type, by their heads' run_at, which any later
-- visitor sees. A head whose time was changed since it was written (a retry, a deferral, an operator) keeps it. Only the
-- first 1,000 events of a line are searched for types.
-- parameters: $1 text topic, $2 text[] ordering keys, $3 integer events of a full chunk (null: any number),
--             $4 text[] expected types (empty: no set is expected)
-- returns: nothing (the command tag counts the lines)
-- locks: the heads; the caller has the buckets
-- A line's head is looked up by itself (LIMIT), and the heads are changed by their ids (ARRAY), not joined: without
-- statistics, or with a plan for an empty table, the server would join by reading the heads of all lines, or all events.
-- The conditions are repeated, so that a head which another transaction changed meanwhile is not changed again.
UPDATE {schema}.events e SET run_at = clock_timestamp()
 WHERE CASE WHEN e.head THEN e.status = 'waiting' END AND e.attempts = 0 AND e.updated_at <= e.created_at
   AND e.run_at > clock_timestamp() AND e.id = ANY (ARRAY(
     SELECT h.id
       FROM unnest($2::text[]) AS line(key)
      CROSS JOIN LATERAL (
          SELECT * FROM {schema}.events h
           WHERE h.head AND h.topic = $1 AND h.ordering_key = line.key LIMIT 1) h
      WHERE h.status = 'waiting' AND h.attempts = 0 AND h.updated_at <= h.created_at
        AND h.run_at > clock_timestamp()
        AND (CASE WHEN $3::integer IS NULL THEN false
                  ELSE (SELECT l.position FROM {schema}.events l
                         WHERE l.position IS NOT NULL AND l.topic = $1 AND l.ordering_key = line.key
                         ORDER BY l.position DESC LIMIT 1) - h.position + 1 >= $3 END
             OR CASE WHEN cardinality($4::text[]) = 0 THEN false
                     ELSE $4::text[] <@ (SELECT array_agg(DISTINCT l.type) FROM (
                              SELECT l.type FROM {schema}.events l
                               WHERE l.position IS NOT NULL AND l.topic = $1 AND l.ordering_key = line.key
                               ORDER BY l.position LIMIT 1000) l) END)))
