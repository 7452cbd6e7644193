-- Take a page of events that wait into the topics that they go to by now.
-- parameters: $1 text origin, $2 text type ('': any), $3 integer rows
-- returns: how many left their origin; null: somebody else is taking them
-- locks: the rows, and their dedup keys, until the transaction ends
SELECT {schema}.take_events($1::text, $2::text, $3::integer)
