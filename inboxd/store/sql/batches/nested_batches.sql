-- Some of the batches and workflows that are members of a batch.
-- parameters: $1 bigint batch, $2 integer limit
-- returns: id, kind, name, status, size, unsettled
-- locks: nothing
SELECT * FROM (
    SELECT b.id, b.kind, b.name, b.status, b.size, b.size - b.succeeded - b.failed - b.cancelled - b.skipped AS unsettled
      FROM {schema}.batches b WHERE b.parent_id = $1::bigint LIMIT $2) AS nested
 ORDER BY id
