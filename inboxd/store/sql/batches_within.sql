-- A batch and all that are nested in it.
-- parameters: $1 uuid batch_id (null: by number), $2 bigint number
-- returns: id
-- locks: nothing
WITH RECURSIVE inner_batches AS (
    SELECT id FROM {schema}.batches WHERE batch_id = $1::uuid OR ($1::uuid IS NULL AND id = $2::bigint)
    UNION
    SELECT b.id FROM inner_batches i JOIN {schema}.batches b ON b.parent_id = i.id
)
SELECT id FROM inner_batches
