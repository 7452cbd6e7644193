-- Hand the text of a plugin's migration to run_migration, in this transaction: a DO block cannot have parameters.
-- parameters: $1 text
-- returns: the text
-- locks: nothing
SELECT set_config('inboxd.migration', $1, true)
