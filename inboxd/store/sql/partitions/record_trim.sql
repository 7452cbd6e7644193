-- Record that types were removed from a whole partition.
-- parameters: $1 text part, $2 text[] types, $3 bigint rows removed, of all of them
-- returns: nothing
-- locks: the new rows
INSERT INTO {schema}.trimmed (part, type, rows) SELECT $1, type, $3 FROM unnest($2::text[]) AS type
ON CONFLICT (part, type) DO NOTHING
