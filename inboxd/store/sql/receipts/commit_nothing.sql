-- Commit a minimal write, as durably as a receipt, which shows that the database accepts writes.
-- parameters: none
-- returns: two values without meaning
-- locks: nothing
-- The message is for readers of the log of changes, none of which knows its prefix. Without it nothing would be
-- flushed, and no standby waited for.
SELECT CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', true) END,
       pg_logical_emit_message(true, '{schema}', '')
