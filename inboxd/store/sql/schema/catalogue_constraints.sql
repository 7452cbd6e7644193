-- The constraints of the tables, without NOT NULL (it stands with the column) and without partitions.
-- parameters: none
-- returns: name (with its table), text, body (null)
-- locks: nothing
SELECT conrelid::regclass::text || ' ' || conname AS name, '  ' || pg_get_constraintdef(c.oid) AS text,
       NULL AS body
  FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid
 WHERE connamespace = '{schema}'::regnamespace AND NOT t.relispartition AND contype <> 'n'
 ORDER BY 1
