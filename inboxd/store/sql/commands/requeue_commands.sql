-- Write the results of commands that did not succeed, if this worker's claims still hold them: pending (retry, deferral,
-- release), failed (dead letter), or waiting (back into the line of its key, which it no longer holds).
-- A suspect (ADR 20) that has finished a run stops being one; a released command has not finished one, and
-- neither has a command that was deferred without a run.
-- A row whose cancellation was requested is due at once: its next claim settles it as cancelled.
-- The last 50 errors are kept, so that a row stays bounded. A row with a worker is running (see
-- settle_commands.sql).
-- parameters: arrays, one entry a row: $1 bigint[] ids, $2 bigint[] fences, $3 text[] statuses,
--             $4 integer[] attempts spent, $5 double precision[] seconds until the next run (null: keep),
--             $6 timestamptz[] run_at (null: by seconds), $7 text[] errors (a JSON object, null: none),
--             $8 text[] fingerprints, $10 boolean[]: it did not run, then $9 uuid worker
-- returns: id of each row that matched
-- locks: the rows
UPDATE {schema}.commands c
   SET status = new.status,
       attempts = least(c.attempts + new.spent, 32767),
       crashes = CASE WHEN new.status = 'failed' OR new.released THEN c.crashes ELSE 0 END,
       suspect_group = CASE WHEN new.status <> 'failed' AND new.released THEN c.suspect_group END,
       run_at = CASE WHEN c.cancel_requested THEN clock_timestamp()
                     ELSE coalesce(new.run_at, clock_timestamp() + make_interval(secs => new.seconds),
                                   c.run_at) END,
       worker_id = NULL,
       line_at = CASE WHEN new.status = 'waiting' THEN NULL ELSE c.line_at END,
       started_at = NULL,
       errors = CASE WHEN new.error IS NULL THEN c.errors
                     ELSE CASE WHEN jsonb_array_length(c.errors) >= 50 THEN c.errors - 0
                               ELSE coalesce(c.errors, '[]') END
                          || (jsonb_build_object('at', clock_timestamp()) || new.error::jsonb) END,
       fingerprint = coalesce(new.fingerprint, c.fingerprint),
       updated_at = clock_timestamp()
  FROM (SELECT each.*,
               each.unrun OR each.spent = 0 AND each.seconds IS NULL AND each.run_at IS NULL AS released
          FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::double precision[],
                      $6::timestamptz[], $7::text[], $8::text[], $10::boolean[])
               AS each(id, fence, status, spent, seconds, run_at, error, fingerprint, unrun)) AS new
 WHERE c.id BETWEEN new.id AND new.id AND c.fence = new.fence AND c.worker_id = $9::uuid
RETURNING c.id
