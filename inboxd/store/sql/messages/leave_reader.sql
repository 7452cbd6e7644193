-- Delete the reports of a worker that leaves.
-- parameters: $1 uuid worker
-- returns: nothing
-- locks: its rows
DELETE FROM {schema}.message_readers WHERE worker_id = $1::uuid
