-- Lock one slot of each of these topics, if one is free, until the transaction ends: the number of slots bounds the
-- transactions that process the topic at the same time, over all workers.
-- parameters: $1 text[] topics, $2 integer[] how many slots each has
-- returns: topic of each locked slot
-- locks: advisory, one for each topic, by try
SELECT t.topic
  FROM unnest($1::text[], $2::integer[]) AS t(topic, slots)
 CROSS JOIN LATERAL (SELECT FROM generate_series(1, t.slots) AS slot
                      WHERE pg_try_advisory_xact_lock(hashtext('{schema}.slots.' || t.topic), slot)
                      LIMIT 1) AS taken
