-- Move commands that do not run into history as cancelled.
-- parameters: $1 bigint[] ids
-- returns: id of each row that did not run
-- locks: the rows (held already)
SELECT {schema}.put_away($1::bigint[], 'cancelled') AS id
