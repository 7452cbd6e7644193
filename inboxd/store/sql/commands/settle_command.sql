-- The start of the call that settles a command inside its own transaction; the caller adds the
-- arguments, numbers and a uuid of its own making, so that «settle; COMMIT» is one simple query.
-- parameters: (id, fence, worker, seconds)
-- returns: nothing; raises IB001 when the claim does not hold the lease any more
-- locks: the row
SELECT {schema}.settle_command
