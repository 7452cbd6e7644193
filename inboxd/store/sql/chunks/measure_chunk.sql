-- How far a chunk reaches in its line, and how many events it has.
-- parameters: $1 text topic, $2 text ordering key, $3 bigint its first place, $4 and $5 timestamptz: what was
--             written before the one, or from the other on, belongs to another chunk (null: all belong to this
--             one), $6 integer most events
-- returns: size, last (place)
-- locks: nothing
SELECT count(*)::integer AS size, max(member.place) AS last
  FROM (SELECT e.place FROM {schema}.events e
         WHERE e.place IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.place >= $3
           AND e.place < coalesce((SELECT b.place FROM {schema}.events b
                                    WHERE $4::timestamptz IS NOT NULL
                                      AND b.place IS NOT NULL AND b.topic = $1 AND b.ordering_key = $2
                                      AND b.place >= $3 AND (b.created_at < $4::timestamptz OR b.created_at >= $5::timestamptz)
                                    ORDER BY b.place LIMIT 1), 9223372036854775807)
         ORDER BY e.place LIMIT $6) member
