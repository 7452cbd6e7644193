-- The last position of a chunk in its line, and its number of events.
-- parameters: $1 text topic, $2 text ordering key, $3 bigint its first position, $4 and $5 timestamptz: events that
--             were written before $4, or from $5 on, belong to another chunk (null: all belong to this one),
--             $6 integer most events
-- returns: size, last (position)
-- locks: nothing
SELECT count(*)::integer AS size, max(member.position) AS last
  FROM (SELECT e.position FROM {schema}.events e
         WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position >= $3
           AND e.position < coalesce((SELECT b.position FROM {schema}.events b
                                    WHERE $4::timestamptz IS NOT NULL
                                      AND b.position IS NOT NULL AND b.topic = $1 AND b.ordering_key = $2
                                      AND b.position >= $3 AND (b.created_at < $4::timestamptz OR b.created_at >= $5::timestamptz)
                                    ORDER BY b.position LIMIT 1), 9223372036854775807)
         ORDER BY e.position LIMIT $6) member
