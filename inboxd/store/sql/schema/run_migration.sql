-- Run the text from hand_over_migration. Inside a block the server refuses COMMIT and similar statements, so that a
-- plugin's migration and its record are one transaction, whatever the file contains.
-- parameters: none
-- returns: nothing
-- locks: what the plugin's statements lock
DO $$ BEGIN EXECUTE current_setting('inboxd.migration'); END $$
