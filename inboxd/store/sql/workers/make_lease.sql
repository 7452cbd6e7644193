-- Create a lease with this name, without a holder.
-- parameters: $1 text name of the lease
-- returns: nothing
-- locks: the new row
INSERT INTO {schema}.leases (name) VALUES ($1) ON CONFLICT DO NOTHING
