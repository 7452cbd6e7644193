-- Record an operator's action in the audit, in the transaction that performs it.
-- parameters: $1 text actor, $2 text action, $3 text target, $4 text reason (null: none), $5 bigint rows
-- returns: id of the entry
-- locks: the new row
INSERT INTO {schema}.audit (actor, action, target, reason, count) VALUES ($1, $2, $3, $4, $5) RETURNING id
