-- Let functions be made, in this transaction, before what they call is there.
-- parameters: none
-- returns: off
-- locks: nothing
SELECT set_config('check_function_bodies', 'off', true)
