-- The events among these that exist, unsettled or in history.
-- parameters: $1 uuid[] event_ids
-- returns: event_id of each that exists, as often as it is given
-- locks: nothing
SELECT u.id AS event_id
  FROM unnest($1::uuid[]) AS u(id)
 CROSS JOIN LATERAL ((SELECT 1 FROM {schema}.events e WHERE e.event_id = u.id LIMIT 1)
                     UNION ALL
                     (SELECT 1 FROM {schema}.events_history h WHERE h.event_id = u.id LIMIT 1)
                     LIMIT 1) AS there
