-- Topics by name, with their types: those that are declared or have subscriptions, and others that are given.
-- parameters: $1 text after this name (null: from the first on), $2 integer rows (null: all), $3 text[] others
-- returns: topic, mode, key_path, dedup_path, rules (JSON), source, undeclared_at, types (those of
--          subscriptions), undeclared (types whose subscription no living worker declares), held_for
--          (seconds since the declaration of an unfinished intake; null: no such intake); mode is null if the topic
--          is not declared
-- locks: nothing
-- All subscriptions are read, since no index has their topics first.
SELECT named.topic, t.mode, t.key_path, t.dedup_path, t.rules, t.source, t.undeclared_at,
       coalesce(s.types, '{}') AS types, coalesce(s.undeclared, '{}') AS undeclared,
       (SELECT extract(epoch FROM clock_timestamp() - min(i.declared_at))::double precision
          FROM {schema}.intakes i
         WHERE i.topic = named.topic AND i.finished_at IS NULL) AS held_for
  FROM (SELECT name FROM {schema}.topics WHERE name > coalesce($1::text, '')
         UNION
        SELECT topic FROM {schema}.subscriptions WHERE topic > coalesce($1::text, '')
         UNION
        SELECT other FROM unnest($3::text[]) AS other WHERE other > coalesce($1::text, '')
         ORDER BY 1 LIMIT $2::integer) AS named(topic)
  LEFT JOIN {schema}.topics t ON t.name = named.topic
  LEFT JOIN (SELECT topic, array_agg(type ORDER BY type) AS types,
                    array_agg(type ORDER BY type) FILTER (WHERE undeclared_at IS NOT NULL) AS undeclared
               FROM {schema}.subscriptions WHERE topic > coalesce($1::text, '') GROUP BY topic) s
    ON s.topic = named.topic
 ORDER BY 1
