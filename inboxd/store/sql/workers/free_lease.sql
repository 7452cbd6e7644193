-- Release a lease.
-- parameters: $1 text name of the lease, $2 uuid worker
-- returns: nothing
-- locks: the lease's row
UPDATE {schema}.leases SET holder = NULL WHERE name = $1 AND holder = $2::uuid
