-- Commands that do not run end as cancelled, in history, at once.
-- parameters: $1 bigint[] ids
-- returns: id of each row that did not run
-- locks: the rows (held already)
SELECT {schema}.put_away($1::bigint[], 'cancelled') AS id
