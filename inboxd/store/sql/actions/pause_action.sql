-- Pause a bulk action.
-- parameters: $1 bigint id, $2 text why
-- returns: nothing
-- locks: its row (held already)
UPDATE {schema}.actions SET goes_on_as = status, status = 'paused', note = $2 WHERE id = $1
