-- All declarations, for comparing former ones with current ones.
-- parameters: none
-- returns: kind (topic, subscription, schedule, event type, command type), name, said (JSON: the declaration)
-- locks: nothing
SELECT 'topic' AS kind, t.name,
       jsonb_build_object('mode', t.mode, 'key', t.key_path, 'dedup', t.dedup_path, 'rules', t.rules,
                          'source', t.source, 'undeclared', t.undeclared_at IS NOT NULL)::text AS said
  FROM {schema}.topics t
UNION ALL
SELECT 'subscription', s.topic || ' ' || s.type, jsonb_build_object('undeclared', s.undeclared_at IS NOT NULL)::text
  FROM {schema}.subscriptions s
UNION ALL
SELECT 'schedule', s.name,
       (to_jsonb(s) - ARRAY['id', 'name', 'next_at', 'last_at', 'created_at', 'updated_at', 'undeclared_at']
        || jsonb_build_object('undeclared', s.undeclared_at IS NOT NULL))::text
  FROM {schema}.schedules s
UNION ALL
SELECT d.kind || ' type', d.type, jsonb_build_object('queue', d.queue, 'retry', d.retry, 'title', d.title,
                                                          'description', d.description,
                                                          'secret_keys', d.secret_keys)::text
  FROM {schema}.declared_types d
