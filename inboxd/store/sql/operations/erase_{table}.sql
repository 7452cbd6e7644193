-- Erase the data of settled rows about a subject, in a stretch of one partition: payload, headers, result, progress,
-- errors, keys, and the tenant or entity. Ids, type, times, status and lineage stay.
-- parameters: null for any: $1 text tenant, $2 text entity_type, $3 text entity_id; $4 and $5 timestamptz the
--             partition's bounds, $6 and $7 tid from (included) and to (not); $8 jsonb that replaces the errors
-- returns: rows, bodies, receipts (uuid[]: those in which the rows came)
-- locks: the rows, their bodies
WITH found AS MATERIALIZED (
    SELECT h.id, h.finished_at, h.body_id, h.body_at, h.origin_kind, h.causation_id FROM {schema}.{table}_history h
     WHERE h.finished_at >= $4 AND h.finished_at < $5 AND h.ctid >= $6 AND h.ctid < $7
       AND ($1::text IS NULL OR h.tenant = $1) AND ($2::text IS NULL OR h.entity_type = $2)
       AND ($3::text IS NULL OR h.entity_id = $3)
), gone AS (
    DELETE FROM {schema}.bodies b USING found f WHERE b.id BETWEEN f.body_id AND f.body_id AND b.created_at = f.body_at RETURNING 1
), erased AS (
    UPDATE {schema}.{table}_history h
       SET payload = NULL, {headers = NULL or result = NULL, progress = NULL}, errors = $8::jsonb, ordering_key = NULL,
           {dedup_key or unique_key} = NULL, entity_id = NULL, tenant = CASE WHEN $1::text IS NULL THEN h.tenant END,
           body_id = NULL, body_at = NULL, body_bytes = NULL, updated_at = clock_timestamp()
      FROM found f
     WHERE h.id BETWEEN f.id AND f.id AND h.finished_at = f.finished_at AND h.finished_at >= $4 AND h.finished_at < $5
    RETURNING 1
)
SELECT (SELECT count(*) FROM erased) AS rows, (SELECT count(*) FROM gone) AS bodies,
       ARRAY(SELECT DISTINCT f.causation_id FROM found f WHERE f.origin_kind = 'receipt') AS receipts
