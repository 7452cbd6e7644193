-- A page of the hot rows, and those of them that are about a subject.
-- parameters: null for any: $1 text tenant, $2 text entity_type, $3 text entity_id; $4 bigint id above
--             which the page begins, $5 integer rows of the page
-- returns: last (the page's last id; null: the page is empty), ids, statuses (of those that match)
-- locks: nothing
SELECT max(page.id) AS last,
       coalesce(array_agg(page.id ORDER BY page.id) FILTER (WHERE page.matches), '{}') AS ids,
       coalesce(array_agg(page.status ORDER BY page.id) FILTER (WHERE page.matches), '{}') AS statuses
  FROM (SELECT h.id, h.status,
               ($1::text IS NULL OR h.tenant IS NOT DISTINCT FROM $1)
               AND ($2::text IS NULL OR h.entity_type IS NOT DISTINCT FROM $2)
               AND ($3::text IS NULL OR h.entity_id IS NOT DISTINCT FROM $3) AS matches
          FROM {schema}.{table} h WHERE h.id > $4 ORDER BY h.id LIMIT $5) page
