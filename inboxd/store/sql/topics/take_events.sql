-- Move a page of waiting events into the topics to which they belong by now.
-- parameters: $1 text origin, $2 text type ('': any), $3 integer rows
-- returns: how many left their origin; null: another transaction is taking them
-- locks: the rows, and their dedup keys, until the transaction ends
SELECT {schema}.take_events($1::text, $2::text, $3::integer)
