-- The tables: columns, defaults, storage settings; without partitions.
-- parameters: none
-- returns: name, text (a line for each column, and one for the settings), body (null)
-- locks: nothing
SELECT c.relname AS name,
       string_agg(format('  %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
                         CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
                         coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')),
                  E'\n' ORDER BY a.attnum)
           || coalesce(E'\n  with ' || array_to_string(c.reloptions, ', '), '') AS text,
       NULL AS body
  FROM pg_class c JOIN pg_attribute a ON a.attrelid BETWEEN c.oid AND c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND c.relnamespace = '{schema}'::regnamespace AND NOT a.attisdropped
 GROUP BY c.relname, c.reloptions ORDER BY 1
