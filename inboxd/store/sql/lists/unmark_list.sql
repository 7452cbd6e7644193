-- Take back the crash that was counted on a list's first event before the list ran, which ended without an
-- outcome while its process lives.
-- parameters: $1 bigint id, $2 integer crashes and $3 timestamptz run_at before it was marked
-- returns: nothing
-- locks: the row
UPDATE {schema}.events SET crashes = $2, run_at = $3 WHERE id = $1 AND status = 'waiting' AND crashes = $2 + 1
