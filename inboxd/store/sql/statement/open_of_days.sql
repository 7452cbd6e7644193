-- A page of unsettled events, counted by the day on which they were written, and by source.
-- parameters: $1 bigint the id to go on from, $2 integer rows
-- returns: last (the id to go on from), day, source, status (dead, open), rows; no row: the page is empty
-- locks: nothing
WITH page AS MATERIALIZED (
    SELECT e.id, e.created_at, e.source, e.status FROM {schema}.events e WHERE e.id > $1::bigint ORDER BY e.id LIMIT $2
)
SELECT (SELECT max(p.id) FROM page p) AS last, (page.created_at AT TIME ZONE 'UTC')::date AS day,
       coalesce(page.source, '') AS source, CASE page.status WHEN 'failed' THEN 'dead' ELSE 'open' END AS status,
       count(*) AS rows
  FROM page GROUP BY 2, 3, 4
