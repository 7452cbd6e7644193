-- Set the time limit of this transaction's statements.
-- parameters: $1 text time (with its unit)
-- returns: one row
-- locks: nothing
SELECT set_config('statement_timeout', $1, true)
