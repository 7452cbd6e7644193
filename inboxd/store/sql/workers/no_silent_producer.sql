-- Whether all producers that did not notify have ended. Never true too early: it takes the lock, and releases it with this
-- statement. Meanwhile a producer that tries the shared lock fails, and notifies.
-- parameters: $1 integer (1 events, 2 commands)
-- returns: boolean
-- locks: the advisory lock of silent producers, exclusively, for this statement
SELECT pg_try_advisory_xact_lock(hashtext('{schema}'), $1::integer)
