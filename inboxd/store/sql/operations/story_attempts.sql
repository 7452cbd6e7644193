-- When attempts of rows failed, and the current time: unsettled rows are found by id, settled ones also by finished_at, so
-- that one day of history is read.
-- parameters: $1 text[] kinds, $2 bigint[] numbers, $3 timestamptz[] when each was settled (null: it is not)
-- returns: now, kind, id, failed (text[], as they were written; empty too if the role may not read errors);
--          one row without a kind if no row was found
-- locks: nothing
SELECT clock_timestamp() AS now, found.kind, found.id,
       ARRAY(SELECT left(each.value ->> 'at', 40)
               FROM jsonb_array_elements(CASE jsonb_typeof(found.errors) WHEN 'array' THEN found.errors END) AS each(value)
              WHERE jsonb_typeof(each.value) = 'object') AS failed
  FROM (VALUES (1)) AS one(row)
  LEFT JOIN LATERAL (
      SELECT row.kind, row.id, r.errors
        FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS row(kind, id, finished_at)
       CROSS JOIN LATERAL (
           (SELECT {content jsonb: e.errors} AS errors FROM {schema}.events e
             WHERE row.kind = 'event' AND row.finished_at IS NULL AND e.id BETWEEN row.id AND row.id LIMIT 1)
           UNION ALL
           (SELECT {content jsonb: c.errors} AS errors FROM {schema}.commands c
             WHERE row.kind = 'command' AND row.finished_at IS NULL AND c.id BETWEEN row.id AND row.id LIMIT 1)
           UNION ALL
           (SELECT {content jsonb: h.errors} AS errors FROM {schema}.events_history h
             WHERE row.kind = 'event' AND h.id = row.id AND h.finished_at = row.finished_at LIMIT 1)
           UNION ALL
           (SELECT {content jsonb: h.errors} AS errors FROM {schema}.commands_history h
             WHERE row.kind = 'command' AND h.id = row.id AND h.finished_at = row.finished_at LIMIT 1)
       ) r
  ) found ON true
