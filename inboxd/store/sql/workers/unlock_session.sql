-- Release the advisory locks that a handler took for its session; a rollback does not.
-- parameters: none
-- returns: nothing
-- locks: none any more
SELECT pg_advisory_unlock_all()
