-- Take a lease that its holder no longer keeps. Another term than $2 means that another worker was faster.
-- parameters: $1 text name of the lease, $2 bigint the term that was read, $3 uuid worker
-- returns: the new term, or nothing: another was faster, or this worker does not run (any more)
-- locks: the lease's row
UPDATE {schema}.leases
   SET holder = $3::uuid, term = term + 1, taken_at = clock_timestamp()
 WHERE name = $1 AND term = $2
   AND EXISTS (SELECT FROM {schema}.workers w WHERE w.id = $3::uuid AND w.state = 'running')
RETURNING term
