-- Run what hand_over_migration gave. Inside a block the server refuses COMMIT and its like, so that a
-- plugin's migration and its record are one transaction, whatever the file says.
-- parameters: none
-- returns: nothing
-- locks: what the plugin's statements lock
DO $$ BEGIN EXECUTE current_setting('inboxd.migration'); END $$
