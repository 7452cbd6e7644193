-- Who leads.
-- parameters: $1 text name of the lease
-- returns: holder, term, held (whether its holder still leads: it runs)
-- locks: nothing
SELECT l.holder, l.term,
       EXISTS (SELECT FROM {schema}.workers w WHERE w.id = l.holder AND w.state = 'running') AS held
  FROM {schema}.leases l WHERE l.name = $1
