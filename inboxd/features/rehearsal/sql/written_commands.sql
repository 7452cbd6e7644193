-- The commands among these that this transaction has written, with the columns that the database filled in.
-- parameters: $1 uuid[] command ids
-- returns: uuid, lane (the queue), status, run_at
-- locks: nothing
SELECT command_id AS uuid, queue AS lane, status, run_at
  FROM {schema}.commands WHERE command_id = ANY ($1::uuid[])
