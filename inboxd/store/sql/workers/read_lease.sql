-- Who leads.
-- parameters: $1 text name of the lease, $2 uuid the worker that asks (null: whoever holds it keeps it, as long as it
--             runs)
-- returns: holder, term, held (whether its holder still leads: it runs, and its code is as new as that of who asks)
-- locks: nothing
SELECT l.holder, l.term,
       EXISTS (SELECT FROM {schema}.workers w
                WHERE w.id = l.holder AND w.state = 'running'
                  AND coalesce(w.code, 0) >= coalesce((SELECT me.code FROM {schema}.workers me WHERE me.id = $2::uuid), 0)
              ) AS held
  FROM {schema}.leases l WHERE l.name = $1
