-- The server's version and state, and this session's role.
-- parameters: none
-- returns: version (number), version_text, role, read_only (a standby, or a session that may not write)
-- locks: nothing
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_version') AS version_text,
       current_user::text AS role,
       pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only
