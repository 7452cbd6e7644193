-- Those of some commands that this transaction has written, with what the database made of them.
-- parameters: $1 uuid[] command ids
-- returns: uuid, lane (the queue), status, run_at
-- locks: nothing
SELECT command_id AS uuid, queue AS lane, status, run_at
  FROM {schema}.commands WHERE command_id = ANY ($1::uuid[])
