-- Commit next to nothing, as durably as a receipt: what shows that the database takes writes.
-- parameters: none
-- returns: two values that say nothing
-- locks: nothing
-- The message is for readers of the log of changes; none of them knows its prefix. Without one nothing would be
-- flushed, and no standby waited for.
SELECT CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', true) END,
       pg_logical_emit_message(true, '{schema}', '')
