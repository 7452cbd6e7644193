-- Hand the text of a plugin's migration to run_migration, in this transaction: a block has no parameters.
-- parameters: $1 text
-- returns: the text
-- locks: nothing
SELECT set_config('inboxd.migration', $1, true)
