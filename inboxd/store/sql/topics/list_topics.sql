-- The declared topics, with their types.
-- parameters: none
-- returns: topic, mode, key_path, dedup_path, rules (JSON), source, undeclared_at, types (those of
--          subscriptions), undeclared (types whose subscription no living worker declares), held_for
--          (seconds since the declaration of an unfinished intake; null: no such intake); mode is null if the topic
--          has subscriptions only
-- locks: nothing
SELECT coalesce(t.name, s.topic) AS topic, t.mode, t.key_path, t.dedup_path, t.rules, t.source, t.undeclared_at,
       coalesce(s.types, '{}') AS types, coalesce(s.undeclared, '{}') AS undeclared,
       (SELECT extract(epoch FROM clock_timestamp() - min(i.declared_at))::double precision
          FROM {schema}.intakes i
         WHERE i.topic = coalesce(t.name, s.topic) AND i.finished_at IS NULL) AS held_for
  FROM {schema}.topics t
  FULL JOIN (SELECT topic, array_agg(type ORDER BY type) AS types,
                    array_agg(type ORDER BY type) FILTER (WHERE undeclared_at IS NOT NULL) AS undeclared
               FROM {schema}.subscriptions GROUP BY topic) s ON s.topic = t.name
 ORDER BY 1
