-- Declare a worker dead. Its commands are returned in a later statement of this transaction, whose
-- snapshot shows every claim that committed before.
-- parameters: $1 uuid worker
-- returns: nothing
-- locks: the worker's row (held already)
UPDATE {schema}.workers SET state = 'dead', ended_at = clock_timestamp() WHERE id = $1::uuid
