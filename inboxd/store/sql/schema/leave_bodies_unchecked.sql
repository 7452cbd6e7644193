-- Let functions be made, in this transaction, before the functions that they call exist.
-- parameters: none
-- returns: off
-- locks: nothing
SELECT set_config('check_function_bodies', 'off', true)
