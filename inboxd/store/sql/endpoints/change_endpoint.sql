-- Change an endpoint that an operator added; a trigger notifies workers. Failures of the former URL no longer count.
-- parameters: $1 text name, $2 text what changes: a JSON object of url, types, ordered, events, rate, concurrency (null: none),
--   disable_after; $3 timestamptz: only if it last changed then (null: in any case)
-- returns: name; no row if the endpoint does not exist, or it last changed at another time
-- locks: the row
UPDATE {schema}.endpoints
   SET url = coalesce(c.given ->> 'url', url),
       failing_since = CASE WHEN coalesce(c.given ->> 'url', url) = url THEN failing_since END,
       types = CASE WHEN c.given ? 'types' THEN ARRAY(SELECT jsonb_array_elements_text(c.given -> 'types')) ELSE types END,
       ordered = coalesce((c.given ->> 'ordered')::boolean, ordered),
       events = coalesce((c.given ->> 'events')::boolean, events),
       rate = CASE WHEN c.given ? 'rate' THEN c.given ->> 'rate' ELSE rate END,
       concurrency = CASE WHEN c.given ? 'concurrency' THEN (c.given ->> 'concurrency')::integer ELSE concurrency END,
       disable_after = coalesce((c.given ->> 'disable_after')::interval, disable_after),
       version = version + 1, changed_at = clock_timestamp()
  FROM (SELECT $2::text::jsonb AS given) AS c
 WHERE name = $1 AND ($3::timestamptz IS NULL OR changed_at = $3)
RETURNING name
