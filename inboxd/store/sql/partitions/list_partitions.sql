-- The partitions of history, bodies and receipts, oldest first: those that are attached, and those that are retired.
-- parameters: $1 boolean with their sizes
-- returns: parent, part, low, high (its range), state (attached, pending: its detach was interrupted,
--          detached), owned (whether this login may detach it itself), age (seconds since its range
--          ended), rows (an estimate; null: none yet), bytes (with indexes; null without sizes), empty (whether it
--          has no page; null without sizes), exported (rows in the file, null: none), retired (whether it is recorded),
--          trimmed (text[]: types that were removed from it)
-- locks: nothing; a partition that is being dropped has no range, and is left out
-- Most of the cost is that bounds are deparsed and read with regular expressions: once per partition.
-- For the rest the catalogue is read once, instead of a lookup per partition.
WITH relation AS MATERIALIZED (
    SELECT oid, relname, reltuples, relowner, relispartition FROM pg_class
     WHERE relnamespace = to_regnamespace('{schema}')
), bounded AS MATERIALIZED (
    SELECT * FROM {schema}.every_partition
), known AS (
    SELECT p.parent, p.part, p.oid, p.low, p.high, CASE WHEN p.pending THEN 'pending' ELSE 'attached' END AS state
      FROM bounded p WHERE p.low IS NOT NULL AND p.high IS NOT NULL
    UNION ALL
    SELECT r.parent, r.part, c.oid, r.low, r.high, 'detached'
      FROM {schema}.retired r
      JOIN relation c ON c.relname = r.part AND NOT c.relispartition
     WHERE r.dropped_at IS NULL
)
SELECT k.parent, k.part, k.low, k.high, k.state,
       pg_has_role((SELECT o.relowner FROM relation o WHERE o.relname = k.parent), 'USAGE') AS owned,
       extract(epoch FROM now() - k.high)::double precision AS age,
       nullif(c.reltuples, -1)::bigint AS rows,
       CASE WHEN $1::boolean THEN pg_total_relation_size(k.oid) END AS bytes,
       CASE WHEN $1::boolean THEN pg_relation_size(k.oid) = 0 END AS empty,
       r.rows AS exported, r.part IS NOT NULL AS retired,
       ARRAY(SELECT t.type FROM {schema}.trimmed t WHERE t.part = k.part) AS trimmed
  FROM known k
  JOIN relation c ON c.oid = k.oid
  LEFT JOIN {schema}.retired r ON r.part = k.part AND r.dropped_at IS NULL
 ORDER BY k.parent, k.low, k.part
