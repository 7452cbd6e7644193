-- The next rows that a bulk action's filter matches, among some of the next rows, in the order of ids.
-- parameters: $1 text[] statuses; each null for any: $2 text type, $3 text topic or queue, $4 text[] tenants,
--             $5 timestamptz created since, $6 text that the newest error contains, $7 text fingerprint,
--             $8 bigint[] batches (events are in none); then $9 bigint ids above, $10 bigint ids up to, $11 integer limit,
--             $12 integer rows to look at
-- returns: ids, reached (the last id that was looked at; null: there was none), looked (how many rows)
-- locks: nothing
WITH few AS MATERIALIZED (
    SELECT max(id) AS reached, count(*) AS looked
      FROM (SELECT id FROM {schema}.{table} WHERE id > $9::bigint AND id <= $10::bigint ORDER BY id LIMIT $12) next
)
SELECT ARRAY(
    SELECT h.id  -- by id alone: statistics that are old must not lead to all rows of a status
      FROM (SELECT id, status, type, {topic or queue}, tenant, created_at, fingerprint, {NULL::bigint or batch_id} AS batch_id,
                   {content jsonb: errors} AS errors
              FROM {schema}.{table}
             WHERE id > $9 AND id <= (SELECT reached FROM few) ORDER BY id OFFSET 0) h
     WHERE h.status = ANY ($1::text[])
       AND ($2::text IS NULL OR h.type = $2)
       AND ($3::text IS NULL OR h.{topic or queue} = $3)
       AND ($4::text[] IS NULL OR h.tenant = ANY ($4))
       AND ($5::timestamptz IS NULL OR h.created_at >= $5)
       AND ($6::text IS NULL OR strpos(lower(h.errors -> -1 ->> 'error'), lower($6)) > 0)
       AND ($7::text IS NULL OR h.fingerprint = $7)
       AND ($8::bigint[] IS NULL OR {false or h.batch_id = ANY ($8)})
     ORDER BY h.id LIMIT $11) AS ids, few.reached, few.looked
  FROM few
