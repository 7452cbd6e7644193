-- Take back the crash that was counted before an event ran alone: either in the transaction that runs it (if the process
-- dies, this never commits, and the crash stays counted); or later, when the run ended without a result and the process
-- lives (then it waits for the session that ran it, which may just be ending). An event that was settled meanwhile, or
-- marked again, is left alone.
-- The condition names two statuses: see claim_event.sql.
-- parameters: $1 bigint id, $2 integer crashes and $3 double precision run_at (seconds since the epoch) before it was marked
-- returns: nothing
-- locks: the row
UPDATE {schema}.events SET crashes = $2, run_at = to_timestamp($3)
 WHERE id = $1 AND status IN ('pending', 'waiting') AND crashes = $2 + 1
