-- Dismiss events that no worker handles and that the settings ignore, with the reason.
-- parameters: $1 bigint[] ids, $2 text error (a JSON object)
-- returns: nothing (the command tag counts the rows)
-- locks: the rows (held already: by themselves, or by their buckets)
WITH gone AS (
    DELETE FROM {schema}.events WHERE id = ANY ($1::bigint[]) AND status IN ('pending', 'waiting') RETURNING *
)
INSERT INTO {schema}.events_history
       ({event but status, errors, fingerprint, updated_at},
        status, errors, fingerprint, updated_at, finished_at)
SELECT {event but status, errors, fingerprint, updated_at},
       'dismissed', coalesce(errors, '[]') || (jsonb_build_object('at', clock_timestamp()) || $2::jsonb),
       'ignored:' || type, clock_timestamp(), clock_timestamp()
  FROM gone
