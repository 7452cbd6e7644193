-- The statement that detaches a partition without blocking readers and writers. It must run outside of a
-- transaction, by itself.
-- parameters: $1 text parent, $2 text part
-- returns: the statement
-- locks: nothing; the statement: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the partition
--        once no session uses it as part of the parent any more
SELECT format('ALTER TABLE {schema}.%I DETACH PARTITION {schema}.%I CONCURRENTLY', $1::text, $2::text)
