-- The next rows that a bulk action's filter matches, among some of the next rows, in the order of ids.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none), $9 timestamptz until, $10 text entity_type, $11 text entity_id,
--             $12 text what $5 and $9 refer to: ended, failed, done, waiting (null: created);
--             then $13 bigint ids above, $14 bigint ids up to, $15 integer limit, $16 integer rows to look at
-- returns: ids, reached (the last id that was looked at; null: no row was left), looked (how many rows)
-- locks: nothing
WITH few AS MATERIALIZED (
    SELECT max(id) AS reached, count(*) AS looked
      FROM (SELECT id FROM {schema}.{table} WHERE id > $13::bigint AND id <= $14::bigint ORDER BY id LIMIT $16) next
)
SELECT ARRAY(
    SELECT h.id  -- by id alone: statistics that are old must not lead to all rows of a status
      FROM (SELECT id, status, type, {topic or queue}, tenant, created_at, updated_at, entity_type, entity_id,
                   fingerprint, {NULL::bigint or batch_id} AS batch_id,
                   {content jsonb: errors} AS errors
              FROM {schema}.{table}
             WHERE id > $13 AND id <= (SELECT reached FROM few) ORDER BY id OFFSET 0) h
     WHERE h.status = ANY ($1::text[])
       AND ($2::text IS NULL OR h.type = $2)
       AND ($7::text IS NULL OR h.fingerprint = $7)
       AND {meant {kind} h}
     ORDER BY h.id LIMIT $15) AS ids, few.reached, few.looked
  FROM few
