-- End a bulk action where it is.
-- parameters: $1 bigint id
-- returns: nothing
-- locks: its row (held already)
UPDATE {schema}.actions SET status = 'aborted', goes_on_as = NULL, ended_at = clock_timestamp() WHERE id = $1
