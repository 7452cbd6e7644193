-- Tables with the name of a partition of history, bodies or receipts that are not attached: a person detached them.
-- Partitions that retention detached are recorded (`retired`), and left out.
-- parameters: none
-- returns: part, ahead (its day, in days from today, the nearest to come first), attach, rename (statements)
-- locks: nothing
WITH alike AS (
    SELECT c.relname::text AS part, name.is[1] AS parent,
           make_date(name.is[2]::integer, name.is[3]::integer, 1) + name.is[4]::integer - 1 AS day
      FROM pg_class c
     CROSS JOIN regexp_match(
         c.relname, '^(bodies|events_history|commands_history|receipts)_([12]\d{3})(0[1-9]|1[0-2])([0-3]\d)$') AS name("is")
     WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
       AND name.is IS NOT NULL
       AND NOT EXISTS (SELECT FROM {schema}.retired r WHERE r.part = c.relname AND r.dropped_at IS NULL)
)
SELECT part, ahead,
       format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I FOR VALUES FROM (%L) TO (%L);', parent, part,
              to_char(day, 'YYYY-MM-DD" 00:00+00"'), to_char(day + 1, 'YYYY-MM-DD" 00:00+00"')) AS attach,
       format('ALTER TABLE {schema}.%I RENAME TO %I;', part, part || '_kept') AS rename
  FROM alike
 CROSS JOIN LATERAL (SELECT day - (now() AT TIME ZONE 'UTC')::date AS ahead) away
 WHERE part = parent || to_char(day, '_YYYYMMDD')
 ORDER BY ahead < 0, abs(ahead), part
