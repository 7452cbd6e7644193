-- Let the statements of this transaction take so long and no longer.
-- parameters: $1 text time (with its unit)
-- returns: one row
-- locks: nothing
SELECT set_config('statement_timeout', $1, true)
