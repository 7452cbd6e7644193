-- The topics to which events of these types go, if their producer names none.
-- parameters: $1 text[] types
-- returns: topic
-- locks: nothing
SELECT DISTINCT coalesce(s.topic, 'default') AS topic
  FROM unnest($1::text[]) AS u(type)
  LEFT JOIN {schema}.subscriptions s ON s.type = u.type
