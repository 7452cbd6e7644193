-- A partition that is dropped while somebody looks is not listed, where it was listed without its range.
-- oldest code: 4

-- partitions as 0012 has it, but: PostgreSQL says NULL for the range of one that is gone already, though the
-- snapshot still shows it. Two leaders for a moment met that: the one that wrote it down failed. OFFSET 0:
-- the range is asked for once, not for each column.
CREATE OR REPLACE VIEW {schema}.partitions AS
SELECT parent.relname::text AS parent, part.relname::text AS part, part.oid AS oid,
       substring(bound.text FROM $r$FROM \('([^']+)'\)$r$)::timestamptz AS low,
       substring(bound.text FROM $r$TO \('([^']+)'\)$r$)::timestamptz AS high,
       i.inhdetachpending AS pending
  FROM pg_class parent
  JOIN pg_inherits i ON i.inhparent = parent.oid
  JOIN pg_class part ON part.oid = i.inhrelid
 CROSS JOIN LATERAL (SELECT pg_get_expr(part.relpartbound, part.oid) AS text OFFSET 0) bound
 WHERE parent.relnamespace = to_regnamespace('{schema}') AND parent.relkind = 'p'
   AND parent.relname IN ('bodies', 'events_history', 'commands_history')
   AND bound.text IS NOT NULL;
