-- Declare the schedules of a worker that joins; sorted, so that two workers do not deadlock.
-- A schedule of that name that an operator added counts as declared from then on.
-- A schedule whose cron and zone are unchanged keeps its next time, so that runs that were missed meanwhile are due.
-- parameters: arrays, one entry a schedule: $1 timestamptz[] next times, $2 text[] payloads (JSON), then one for each
--             other field of a schedule (`Schedule`), in their order
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.schedules AS old
       (next_at, payload, {each field schedule but payload: NAME})
SELECT next_at, payload::jsonb, {each field schedule but payload: NAME}
  FROM unnest($1::timestamptz[], $2::text[], {each field schedule but payload: $NUMBER+3::TYPE[]})
       AS t(next_at, payload, {each field schedule but payload: NAME})
 ORDER BY name
ON CONFLICT (name) DO UPDATE
   SET {each field schedule but name: NAME = excluded.NAME},
       next_at = CASE WHEN (old.cron, old.zone) = (excluded.cron, excluded.zone) THEN old.next_at
                      ELSE excluded.next_at END,
       undeclared_at = NULL, added_at = NULL, updated_at = clock_timestamp()
 WHERE (old.undeclared_at, old.added_at, {each field schedule but name: old.NAME})
       IS DISTINCT FROM (NULL::timestamptz, NULL::timestamptz, {each field schedule but name: excluded.NAME})
