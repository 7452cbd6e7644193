-- Has every producer that was silent ended? True at most once it can: the lock is taken and, with
-- this statement, given back. Meanwhile a producer that tries the shared lock fails and notifies.
-- parameters: $1 integer (1 events, 2 commands)
-- returns: boolean
-- locks: the advisory lock of silent producers, exclusively, for this statement
SELECT pg_try_advisory_xact_lock(hashtext('{schema}'), $1::integer)
