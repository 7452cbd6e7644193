-- Write the results of events that did not succeed: pending (retry or deferral), failed (dead letter).
-- The last 50 errors are kept, so that a row stays bounded. A row with a result did not crash its worker, so the crash
-- that was counted before its run is taken back.
-- parameters: arrays, one entry a row: $1 bigint[] ids, $2 text[] statuses, $3 integer[] attempts spent,
--             $4 double precision[] seconds until the next run (null: keep), $5 timestamptz[] run_at
--             (null: by seconds), $6 text[] errors (a JSON object, null: none), $7 text[] fingerprints,
--             $8 integer[] crashes that remain
-- returns: nothing (the command tag counts the rows)
-- locks: the rows (held already)
UPDATE {schema}.events e
   SET status = new.status,
       attempts = least(e.attempts + new.spent, 32767),
       crashes = new.crashes,
       run_at = coalesce(new.run_at, clock_timestamp() + make_interval(secs => new.seconds), e.run_at),
       errors = CASE WHEN new.error IS NULL THEN e.errors
                     ELSE CASE WHEN jsonb_array_length(e.errors) >= 50 THEN e.errors - 0
                               ELSE coalesce(e.errors, '[]') END
                          || (jsonb_build_object('at', clock_timestamp()) || new.error::jsonb) END,
       fingerprint = coalesce(new.fingerprint, e.fingerprint),
       updated_at = clock_timestamp()
  FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::double precision[], $5::timestamptz[],
              $6::text[], $7::text[], $8::integer[])
       AS new(id, status, spent, seconds, run_at, error, fingerprint, crashes)
 WHERE e.id BETWEEN new.id AND new.id
