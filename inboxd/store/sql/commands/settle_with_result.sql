-- Settle a command that has a result inside its own transaction.
-- parameters: $1 bigint id, $2 bigint fence, $3 uuid worker, $4 double precision seconds, $5 text
--             the result as JSON
-- returns: nothing; raises IB001 if the claim no longer holds the lease
-- locks: the row
SELECT {schema}.settle_command($1, $2, $3, $4, $5::text::jsonb)
