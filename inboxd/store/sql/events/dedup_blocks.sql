-- The length of the record of dedup keys, and the windows that topics declare.
-- parameters: none
-- returns: blocks, topics (text[]), windows (interval[], as long)
-- locks: nothing
SELECT (pg_relation_size('{schema}.dedup') / current_setting('block_size')::integer)::bigint AS blocks,
       coalesce(array_agg(t.name), '{}') AS topics,
       coalesce(array_agg((t.rules ->> 'dedup_window')::interval), '{}') AS windows
  FROM {schema}.topics t WHERE t.rules ->> 'dedup_window' IS NOT NULL
