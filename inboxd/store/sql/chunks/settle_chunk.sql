-- Move a stretch of a line into history after its chunk's handler has finished. Requeued events have left the line
-- before. The caller's lock of the bucket is the fence.
-- parameters: $1 text topic, $2 text ordering key, $3 and $4 bigint first and last position, $5 double precision
--             seconds that each event took, $6 uuid worker
-- returns: type, tenant, rows
-- locks: the rows
WITH gone AS (
    DELETE FROM {schema}.events e
     WHERE e.position IS NOT NULL AND e.topic = $1 AND e.ordering_key = $2 AND e.position BETWEEN $3 AND $4
    RETURNING *
), kept AS (
    INSERT INTO {schema}.events_history
           ({event but status, attempts, updated_at},
            status, attempts, updated_at, finished_at, duration, worker_id)
    SELECT {event but status, attempts, updated_at},
           'succeeded', least(attempts + 1, 32767), clock_timestamp(), clock_timestamp(), make_interval(secs => $5), $6::uuid
      FROM gone
)
SELECT type, {schema}.beginning(tenant) AS tenant, count(*)::integer AS rows FROM gone GROUP BY 1, 2
