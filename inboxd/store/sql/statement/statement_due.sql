-- The pending work for the daily statement.
-- parameters: none
-- returns: now, today (UTC; the first day that did not end at least an hour ago), is_counted (all finished days have a
--          census with sources), closable (date[]: finished, and so are the transactions that may have written to them),
--          closed (date[]), checked_at (null: never), counted_at (when a day of events or receipts was last counted;
--          null: never)
-- locks: briefly, as every reader
SELECT now() AS now, ((now() - interval '1 hour') AT TIME ZONE 'UTC')::date AS today,
       NOT EXISTS (
           SELECT FROM {schema}.every_partition p
             LEFT JOIN {schema}.census c ON c.part = p.part AND c.counted_at <= now() AND c.written IS NOT NULL
            WHERE p.parent = 'events_history' AND NOT p.pending AND c.part IS NULL
              AND p.high <= now() - interval '1 hour'
              AND p.high > (SELECT min(d.day) FROM {schema}.statement_days d)::timestamp AT TIME ZONE 'UTC') AS is_counted,
       ARRAY(SELECT d.day FROM {schema}.statement_days d
              WHERE d.closed_at IS NULL AND d.horizon <= pg_snapshot_xmin(pg_current_snapshot()) ORDER BY d.day) AS closable,
       ARRAY(SELECT d.day FROM {schema}.statement_days d WHERE d.closed_at IS NOT NULL ORDER BY d.day) AS closed,
       (SELECT k.checked_at FROM {schema}.statement_checks k) AS checked_at,
       (SELECT max(c.counted_at) FROM {schema}.census c WHERE c.parent <> 'commands_history') AS counted_at
