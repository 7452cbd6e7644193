-- A batch and all batches nested in it.
-- parameters: $1 uuid batch_id (null: by number), $2 bigint number
-- returns: id
-- locks: nothing
WITH RECURSIVE inner_batches AS (
    SELECT id FROM {schema}.batches 
     WHERE id = coalesce((SELECT named.id FROM {schema}.batches named WHERE named.batch_id = $1::uuid),
                         CASE WHEN $1::uuid IS NULL THEN $2::bigint END)
    UNION
    SELECT b.id FROM inner_batches i
     CROSS JOIN LATERAL (SELECT n.id FROM {schema}.batches n WHERE n.parent_id = i.id OFFSET 0) b
)
SELECT id FROM inner_batches
