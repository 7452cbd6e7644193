-- Copy bodies of a range that rows still need into today's partition.
-- parameters: $1 timestamptz from, $2 timestamptz to (exclusive), $3 integer rows of each table
-- returns: the number of rows that point to copies now
-- locks: the rows FOR NO KEY UPDATE; those that others hold are skipped
SELECT {schema}.keep_bodies($1, $2, $3)
