-- Move dead letters that must not run again into history as dismissed.
-- parameters: $1 bigint[] ids
-- returns: id of each row that was a dead letter
-- locks: the rows (held already)
SELECT {schema}.put_away($1::bigint[], 'dismissed') AS id
