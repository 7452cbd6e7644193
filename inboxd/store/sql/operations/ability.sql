-- Whether what operators do can be written now, and by this role.
-- parameters: none
-- returns: standby, read_only, may (the role may write the audit, without which nothing is done)
-- locks: nothing
SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
       has_table_privilege('{schema}.audit', 'INSERT') AS may
