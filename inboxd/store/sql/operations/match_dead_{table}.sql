-- The next dead letters that a bulk action's filter matches, in the order of ids, among some of the next ones.
-- Read type by type, by the index of dead letters, so no other row is read, however few rows of a full table are dead. The
-- same number is read of each type that has any left; only ids up to where all types were read are returned.
-- parameters: $1 text[] statuses (just failed); each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none), $9 timestamptz until, $10 text entity_type, $11 text entity_id,
--             $12 text what $5 and $9 refer to: ended, failed, done, waiting (null: created);
--             then $13 bigint ids above, $14 bigint ids up to, $15 integer limit, $16 integer rows to look at,
--             of all types
-- returns: ids, reached (the id up to which all were looked at)
-- locks: nothing
WITH RECURSIVE dead(type) AS (
    (SELECT type FROM {schema}.{table}
      WHERE status = 'failed' AND ($2::text IS NULL OR type = $2) ORDER BY type LIMIT 1)
    UNION ALL
    SELECT following.type
      FROM dead
     CROSS JOIN LATERAL (
         SELECT h.type FROM {schema}.{table} h
          WHERE h.status = 'failed' AND h.type > dead.type AND $2::text IS NULL ORDER BY h.type LIMIT 1) following
), left_over AS MATERIALIZED (
    SELECT dead.type
      FROM dead
     CROSS JOIN LATERAL (
        SELECT h.id FROM {schema}.{table} h
         WHERE h.status = 'failed' AND (h.type, h.id) > (dead.type, $13::bigint) AND (h.type, h.id) <= (dead.type, $14::bigint)
         ORDER BY h.type, h.id LIMIT 1) next
), share AS MATERIALIZED (
    SELECT greatest($16::integer / greatest(count(*), 1), 1) AS rows FROM left_over
), looked AS MATERIALIZED (
    SELECT left_over.type, next.id, next.matches
      FROM left_over
     CROSS JOIN LATERAL (
        (SELECT h.id, {meant {kind} h} AS matches
           FROM {schema}.{table} h
          WHERE h.status = 'failed' AND $7::text IS NULL AND 'failed' = ANY ($1::text[])
            AND (h.type, h.id) > (left_over.type, $13) AND (h.type, h.id) <= (left_over.type, $14)
          ORDER BY h.type, h.id LIMIT (SELECT rows FROM share))
        UNION ALL
        (SELECT h.id, {meant {kind} h} AS matches
           FROM {schema}.{table} h
          WHERE h.status || '' = 'failed' AND h.fingerprint = $7::text AND 'failed' = ANY ($1::text[])
            AND (h.type, h.id) > (left_over.type, $13) AND (h.type, h.id) <= (left_over.type, $14)
          ORDER BY h.type, h.id LIMIT (SELECT rows FROM share))) next
), reached AS MATERIALIZED (
    SELECT coalesce(min(each.id), $14) AS id
      FROM (SELECT max(id) AS id FROM looked GROUP BY type HAVING count(*) >= (SELECT rows FROM share)) each
)
SELECT ARRAY(SELECT looked.id FROM looked WHERE looked.matches AND looked.id <= (SELECT id FROM reached)
              ORDER BY looked.id LIMIT $15) AS ids, reached.id AS reached
  FROM reached
