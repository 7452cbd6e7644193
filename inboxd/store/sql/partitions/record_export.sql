-- Record that a partition was exported, unless it was recorded already.
-- parameters: $1 text part, $2 bigint rows, $3 bigint bytes, $4 text file
-- returns: part, or nothing: another process has exported it, or it is gone
-- locks: the row
UPDATE {schema}.retired SET rows = $2, bytes = $3, file = $4, exported_at = clock_timestamp()
 WHERE part = $1 AND dropped_at IS NULL AND rows IS NULL
RETURNING part
