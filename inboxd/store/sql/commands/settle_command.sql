-- The start of the call that settles a command inside its own transaction; the caller adds the
-- arguments, which are its own numbers and a uuid, so that «settle; COMMIT» is one simple query.
-- parameters: (id, fence, worker, seconds)
-- returns: nothing; raises IB001 if the claim no longer holds the lease
-- locks: the row
SELECT {schema}.settle_command
