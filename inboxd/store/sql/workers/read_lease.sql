-- The holder of a lease.
-- parameters: $1 text name of the lease, $2 uuid the worker that asks (null: a running holder keeps it in any case)
-- returns: holder, term, held (whether its holder keeps it: it runs, and its code is as new as that of $2)
-- locks: nothing
SELECT l.holder, l.term,
       EXISTS (SELECT FROM {schema}.workers w
                WHERE w.id = l.holder AND w.state = 'running'
                  AND coalesce(w.code, 0) >= coalesce((SELECT me.code FROM {schema}.workers me WHERE me.id = $2::uuid), 0)
              ) AS held
  FROM {schema}.leases l WHERE l.name = $1
