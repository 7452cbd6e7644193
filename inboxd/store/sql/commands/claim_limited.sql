-- Lease due commands of one queue within its limits: from its lanes, and from the lines of its keys
-- (the function is in migrations/functions/claim_limited.sql).
-- parameters: $1 uuid worker, $2 text queue, $3 integer rows, $4 integer most that run over all workers
--             (null: any number), $5 integer most that are claimed in any $6 double precision
--             seconds (null: any number), $7 text[] types served, lanes: $8 text[] types,
--             $9 smallint[] priorities, $10 double precision[] and $11 bigint[] cursors,
--             $12 boolean: lanes before lines, $13 text[] keys, $14 integer most of a key,
--             $15 integer how many of a key run at once, $16 boolean: a dead letter holds its key,
--             $17 double precision: rows of these keys that this worker claimed until then do not hold the
--             key, and the claimed rows run after them (null: they do hold it), $18 uuid a group of suspects
--             whose members are claimed first (null: none), $19 boolean: no other command runs on this worker
-- returns: as claim_commands.sql (lane 0: from a line), in NO order; or one row with id null, held_back
--          (busy, full, rate) and again (seconds); in one of the rows: passed (text[]), the keys
--          that another claim has locked
-- locks: the worker's row FOR KEY SHARE, the queue's row in limits if it has a limit over all workers, the
--        keys by buckets (advisory), the rows; rows and keys that others have locked are skipped
SELECT c.id, c.command_id, c.queue, c.type, c.schema_version, c.payload, c.priority,
       {schema}.beginning(c.tenant) AS tenant, {schema}.beginning(c.entity_type) AS entity_type,
       {schema}.beginning(c.entity_id) AS entity_id, c.attempts, c.max_attempts, c.crashes, c.fence, c.run_at,
       c.deadline, c.late, c.expires_in, c.cancel_requested, c.origin_kind, c.origin_id, c.replay_of, c.batch_id, c.awaited,
       c.ordering_key, {schema}.beginning(c.correlation_id) AS correlation_id, c.causation_id,
       {schema}.beginning(c.traceparent) AS traceparent, c.body_id, c.body_at, c.body_bytes, c.waited, c.age,
       c.lane, c.held_back, c.again, c.passed,
       c.attempts = 0 AND c.crashes = 0
           AND (c.replay_of IS NOT NULL
                OR c.fence > 1  -- it was claimed before, and no attempt of it counts: read it once more
                   AND (SELECT k.errors IS NOT NULL FROM {schema}.commands k WHERE k.id = c.id)) AS replayed
  FROM {schema}.claim_limited($1::uuid, $2, $3, $4, $5, $6, $7::text[], $8::text[], $9::smallint[],
    $10::double precision[], $11::bigint[], $12, $13::text[], $14, $15, $16,
    $18::uuid IS NOT NULL, $17, $18::uuid, $19) AS c
