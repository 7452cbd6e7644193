-- The triggers, without those of partitions (which are copies), and whether each is enabled.
-- parameters: none
-- returns: name (with its table), text, body (null)
-- locks: nothing
SELECT tgrelid::regclass::text || ' ' || tgname AS name,
       '  ' || pg_get_triggerdef(t.oid)
           || CASE tgenabled WHEN 'O' THEN '' WHEN 'D' THEN ' (disabled)' WHEN 'R' THEN ' (as replica)' ELSE ' (always)' END
           AS text,
       NULL AS body
  FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
 WHERE c.relnamespace = '{schema}'::regnamespace AND NOT tgisinternal AND NOT c.relispartition ORDER BY 1
