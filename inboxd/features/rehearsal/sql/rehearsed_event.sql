-- An event as a claim would return it, unsettled or settled, whether it is locked or not.
-- Of several rows with the same event_id, a hot one before the newest settled one.
-- parameters: $1 bigint id, $2 uuid event_id (one of them null)
-- returns: as claim_events.sql, lane = 0; all_headers (JSON text, also where headers is null), status, settled,
--          mode, bucket, position (null: not lined up); or no row
-- locks: nothing
SELECT {claimed event}, 0 AS lane, e.headers::text AS all_headers, e.status, e.settled, e.mode, e.bucket, e.position
  FROM (SELECT {event but updated_at}, position, false AS settled
          FROM {schema}.events
         WHERE id = ANY ($1::bigint || ARRAY(SELECT named.id FROM {schema}.events named WHERE named.event_id = $2::uuid))
        UNION ALL
        SELECT {event but updated_at}, NULL, true
          FROM {schema}.events_history WHERE id = $1::bigint OR event_id = $2::uuid) e
 ORDER BY e.settled, e.id DESC LIMIT 1
