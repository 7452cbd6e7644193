-- Whether all events of a stretch of a line have the same story and tenant as one of them; reading stops at the first
-- event that differs.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last position, $5 text correlation
--             id, $6 text tenant
-- returns: correlation_id and tenant: the given value if all have it, else null
-- locks: nothing
SELECT CASE WHEN $5::text IS NULL THEN NULL WHEN NOT EXISTS (
           SELECT FROM {schema}.events e
            WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
              AND e.correlation_id IS DISTINCT FROM $5::text) THEN $5::text END AS correlation_id,
       CASE WHEN $6::text IS NULL THEN NULL WHEN NOT EXISTS (
           SELECT FROM {schema}.events e
            WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
              AND e.tenant IS DISTINCT FROM $6::text) THEN $6::text END AS tenant
