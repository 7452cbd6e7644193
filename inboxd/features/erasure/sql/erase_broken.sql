-- Erase the contents of settled events with the raw body of a webhook: payload, headers, errors, keys, entity. Ids, type,
-- times, status and lineage stay.
-- parameters: $1 uuid[] event_ids, $2 jsonb that replaces the errors
-- returns: rows, parts (the partitions in which they are)
-- locks: the rows, their bodies
WITH found AS MATERIALIZED (
    SELECT settled.id, settled.finished_at, settled.body_id, settled.body_at
      FROM unnest($1::uuid[]) AS u(id)
     CROSS JOIN LATERAL (SELECT h.id, h.finished_at, h.body_id, h.body_at, h.errors
                           FROM {schema}.events_history h WHERE h.event_id = u.id OFFSET 0) AS settled
     WHERE NOT {schema}.is_erased(settled.errors)
), gone AS (
    DELETE FROM {schema}.bodies b USING found f WHERE b.id BETWEEN f.body_id AND f.body_id AND b.created_at = f.body_at
), erased AS (
    UPDATE {schema}.events_history h
       SET payload = NULL, headers = NULL, errors = $2::jsonb, ordering_key = NULL, dedup_key = NULL, entity_id = NULL,
           body_id = NULL, body_at = NULL, body_bytes = NULL, updated_at = clock_timestamp()
      FROM found f
     WHERE h.id BETWEEN f.id AND f.id AND h.finished_at = f.finished_at
    RETURNING 1
)
SELECT (SELECT count(*) FROM erased) AS rows,
       ARRAY(SELECT DISTINCT p.part FROM found f
               JOIN {schema}.partitions p ON p.parent = 'events_history' AND f.finished_at >= p.low AND f.finished_at < p.high)
           AS parts
