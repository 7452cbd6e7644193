-- Whether the server's configuration files limit how long a transaction may stay idle.
-- parameters: none
-- returns: boolean; null: the files do not say
-- locks: nothing
SELECT (SELECT f.setting !~ '^0+[a-z]*$' FROM pg_file_settings f
         WHERE f.name = 'idle_in_transaction_session_timeout' AND f.applied
         ORDER BY f.seqno DESC LIMIT 1) AS limited
