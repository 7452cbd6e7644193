-- Reserve ids for announced intakes, in the transaction that makes their declaration.
-- parameters: arrays, one entry an intake: $1 text[] origins, $2 text[] types, $3 text[] topics
-- returns: nothing
-- locks: the rows (held already), and other transactions that reserve ids
SELECT {schema}.open_intakes($1::text[], $2::text[], $3::text[])
