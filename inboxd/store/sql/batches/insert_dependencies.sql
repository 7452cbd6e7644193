-- Insert dependencies between rows that the same transaction inserts.
-- parameters: arrays, one entry an edge: $1 uuid[] needed, $2 uuid[] waiting, $3 text[] conditions
-- returns: nothing
-- locks: the new rows
INSERT INTO {schema}.dependencies (needs, waiting, condition)
SELECT needs, waiting, condition FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS t(needs, waiting, condition)
