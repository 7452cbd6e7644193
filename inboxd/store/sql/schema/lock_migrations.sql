-- One migrator at a time. A session lock, since it must outlive the transaction of each migration.
-- parameters: none
-- returns: nothing
-- locks: the advisory lock of migrations, until the session ends
SELECT pg_advisory_lock(hashtext('{schema}'), 3)
