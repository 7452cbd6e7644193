-- The number of events that stand in line behind one of some events, and of those among these that keep their place there.
-- An event that has arrived but is not lined up yet is not counted.
-- parameters: $1 bigint[] ids, $2 integer: where counting stops
-- returns: in_place, behind, more_behind (there may be more)
-- locks: nothing
WITH own AS MATERIALIZED (
    SELECT e.topic, e.ordering_key, e.position, e.head FROM {schema}.events e
     WHERE e.id = ANY ($1::bigint[]) AND e.mode = 'sequential'
), stands AS MATERIALIZED (
    SELECT next.id FROM own
     CROSS JOIN LATERAL (
         SELECT k.id FROM {schema}.events k
          WHERE k.position IS NOT NULL AND k.topic = own.topic AND k.ordering_key = own.ordering_key
            AND k.position > own.position AND k.id <> ALL ($1::bigint[])
          ORDER BY k.position LIMIT $2 + 1) AS next
     WHERE own.head
     LIMIT $2 + 1
)
SELECT (SELECT count(*) FROM own) AS in_place,
       (SELECT least(count(*), $2) FROM stands) AS behind, (SELECT count(*) FROM stands) > $2 AS more_behind
