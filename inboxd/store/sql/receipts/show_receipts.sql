-- Some receipts by their ids, including kept ones of days that are gone.
-- parameters: $1 uuid[] ids, $2 boolean with body and headers
-- returns: as list_receipts, and body, headers
-- locks: nothing
SELECT r.receipt_id, r.received_at, r.source, r.outcome, r.event_ids, r.body_bytes, {content boolean: r.body IS NOT NULL} AS has_body,
       r.content_type, r.address, r.key_id,
       r.outcome = 'held' AND EXISTS (
           SELECT FROM {schema}.held_receipts h WHERE h.receipt_id = r.receipt_id OFFSET 0) AS held,
       CASE WHEN $2::boolean THEN r.body END AS body, CASE WHEN $2::boolean THEN r.headers END AS headers
  FROM unnest($1::uuid[]) AS given(id)
 CROSS JOIN LATERAL (
     (SELECT r.receipt_id, r.received_at, r.source, r.outcome, r.event_ids, r.body_bytes, r.content_type, r.address, r.key_id,
             {content bytea: r.body} AS body, {content jsonb: r.headers} AS headers
        FROM {schema}.receipts r
       WHERE r.received_at = {schema}.receipt_time(given.id) AND r.receipt_id = given.id)
     UNION ALL
     (SELECT r.receipt_id, r.received_at, r.source, r.outcome, r.event_ids, r.body_bytes, r.content_type, r.address, r.key_id,
             {content bytea: r.body} AS body, {content jsonb: r.headers} AS headers
        FROM {schema}.kept_receipts r WHERE r.receipt_id = given.id) LIMIT 1) r
 ORDER BY r.receipt_id
