-- How far ids have been drawn, and then who may still have to commit some of them, bucket by bucket.
-- The order counts: the subquery refers to the sequence's value, so it runs when that has been read.
-- parameters: none
-- returns: server (when it was started), newest (the largest id drawn, 0: none), buckets and holders (as
--          many: each holder's virtual transaction, beside the bucket whose lock it has); topics (into which
--          events are taken that waited elsewhere: held, as the declarations stood after `newest` was read)
-- locks: the lock manager's, all partitions, for as long as it takes to copy what it has
WITH drawn AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0) AS newest
)
SELECT pg_postmaster_start_time() AS server, drawn.newest, held.buckets, held.holders,
       CASE WHEN drawn.newest IS NOT NULL THEN {schema}.held_topics() END AS topics
  FROM drawn
 CROSS JOIN LATERAL (
     SELECT coalesce(array_agg(l.objid::bigint), '{}') AS buckets,
            coalesce(array_agg(l.virtualtransaction), '{}') AS holders
       FROM pg_locks l
      WHERE drawn.newest IS NOT NULL AND l.locktype = 'advisory' AND l.granted
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = hashtext('{schema}.order')::oid AND l.objsubid = 2) held
