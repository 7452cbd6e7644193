-- One event, hot or settled, with all columns; payload and headers only on request.
-- Of several rows with the same event_id, a hot one before the newest settled one; elsewhere lists the others, which are
-- the event in its other topics.
-- parameters: $1 bigint id, $2 uuid event_id (one of them null), $3 boolean with payload and headers
-- returns: one jsonb object, or no row
-- locks: nothing
SELECT found.whole - ARRAY['payload', 'headers']
       || jsonb_build_object('elsewhere', (
              SELECT coalesce(jsonb_agg(to_jsonb(o) - 'event_id' ORDER BY o.topic, o.id), '[]')
                FROM ((SELECT id, event_id, topic, status FROM {schema}.events
                        WHERE event_id = found.event_id OFFSET 0)
                       UNION ALL
                      (SELECT id, event_id, topic, status FROM {schema}.events_history
                        WHERE event_id = found.event_id OFFSET 0)) o
               WHERE o.id <> found.id))
       || CASE WHEN $3::boolean THEN jsonb_build_object(
              'headers', found.headers,
              'payload', coalesce(found.payload, {content jsonb: (SELECT b.payload FROM {schema}.bodies b
                                  WHERE b.id = found.body_id AND b.created_at = found.body_at)}))
          ELSE '{}' END
  FROM (SELECT to_jsonb(e) AS whole, id, event_id, payload, headers, body_id, body_at, 1 AS place
          FROM (SELECT {event but payload, headers, errors}, position, head, {content jsonb: payload} AS payload,
                       {content jsonb: headers} AS headers, {content jsonb: errors} AS errors FROM {schema}.events) e
         WHERE id = ANY ($1::bigint || ARRAY(SELECT named.id FROM {schema}.events named WHERE named.event_id = $2::uuid))
        UNION ALL
        SELECT to_jsonb(e) || jsonb_build_object('duration', extract(epoch FROM duration)), id, event_id,
               payload, headers, body_id, body_at, 2
          FROM (SELECT {event but payload, headers, errors}, finished_at, duration, worker_id,
                       {content jsonb: payload} AS payload, {content jsonb: headers} AS headers,
                       {content jsonb: errors} AS errors FROM {schema}.events_history) e
         WHERE id = $1::bigint OR event_id = $2::uuid) found
 ORDER BY found.place, found.id DESC LIMIT 1
