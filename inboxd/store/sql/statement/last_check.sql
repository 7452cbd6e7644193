-- When and in which database statements were last checked; and the current database.
-- parameters: none
-- returns: checked_at, was, was_timeline (null: never), database, timeline
-- locks: nothing
SELECT k.checked_at, k.database AS was, k.timeline AS was_timeline, s.database, s.timeline
  FROM {schema}.state_of_database() s LEFT JOIN {schema}.statement_checks k ON true
