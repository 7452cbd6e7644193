-- Whether operators' actions can be written now, by this role.
-- parameters: none
-- returns: standby, read_only, may (the role may write the audit, which every action needs)
-- locks: nothing
SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
       has_table_privilege('{schema}.audit', 'INSERT') AS may
