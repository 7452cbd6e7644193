-- Let there be a lease of this name, which nobody holds yet.
-- parameters: $1 text name of the lease
-- returns: nothing
-- locks: the new row
INSERT INTO {schema}.leases (name) VALUES ($1) ON CONFLICT DO NOTHING
