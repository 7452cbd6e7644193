-- Make looks walk an index until the transaction ends, as plan_looks.sql; and return the days of history, newest first,
-- with whether each has the index for rows of one type (tenant, entity), and with its lowest id.
-- parameters: $1 text events_history or commands_history, $2 text type, tenant, entity, or null
-- returns: one row: now (when the transaction began), commands (the number of days of commands), and arrays of the days,
--          null if history has no day: low, high, indexed, low_id (as the census has it, also while it counts a day
--          again; null: it is not known)
-- locks: briefly, as every reader
WITH known AS MATERIALIZED (
    SELECT c.part, c.low_id FROM {schema}.census c
     WHERE c.parent = $1::text AND greatest(c.begun_at, c.counted_at) <= now()
)
SELECT now() AS now, set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'off', true),
       {planned looks},
       (SELECT count(*)::integer FROM {schema}.partitions p
         WHERE p.parent = 'commands_history' AND p.low <= now() + interval '1 day' AND NOT p.pending) AS commands,
       array_agg(d.low ORDER BY d.low DESC) AS low,
       array_agg(d.high ORDER BY d.low DESC) AS high, array_agg(d.indexed ORDER BY d.low DESC) AS indexed,
       array_agg(d.low_id ORDER BY d.low DESC) AS low_id
  FROM (SELECT p.low, p.high,
               coalesce((SELECT i.indisvalid FROM pg_index i
                          WHERE i.indexrelid = to_regclass(format('{schema}.%I', p.part || '_' || coalesce($2::text, '')))),
                        false) AS indexed,
               c.low_id
          FROM {schema}.partitions p
          LEFT JOIN known c ON c.part = p.part
         WHERE p.parent = $1::text AND NOT p.pending) d
