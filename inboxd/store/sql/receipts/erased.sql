-- The subjects that were erased since then, for the drain of a spool.
-- parameters: $1 text[] subjects, as the audit has them, $2 timestamptz since
-- returns: subject, erased_at (the last time)
-- locks: nothing
SELECT subject, erased_at FROM {schema}.erased($1::text[], $2::timestamptz)
