-- The newest id, and then the transactions that may still commit earlier ids, with their buckets and topics. The order
-- matters: the subquery refers to the sequence's value, so it runs after the value was read; it is grouped, so the
-- planner does not join it in another order.
--
-- An advisory lock of a transaction that writes no events is ignored, since any login may take such locks. A transaction
-- that has drawn an id has had its lock on the table since before `newest` was read.
-- parameters: none
-- returns: server (when it was started), newest (the largest id drawn, 0: none), holders (JSON, [transaction, [bucket, …],
--          [topic, …]] of each; null for the topics: any, since one of them is not declared); topics (those with unfinished
--          intakes, by the declarations after `newest` was read)
-- locks: the lock manager's, all partitions, for as long as it takes to copy its entries
WITH drawn AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value('{schema}.events_id_seq'), 0) AS newest
)
SELECT pg_postmaster_start_time() AS server, drawn.newest, held.holders,
       CASE WHEN drawn.newest IS NOT NULL THEN {schema}.held_topics() END AS topics
  FROM drawn
 CROSS JOIN LATERAL (
     SELECT coalesce(jsonb_agg(jsonb_build_array(writer.id, writer.buckets, CASE
                WHEN NOT EXISTS (SELECT FROM unnest(writer.topics) AS k(hash)
                                  WHERE NOT EXISTS (SELECT FROM {schema}.topics t WHERE hashtext(t.name)::oid = k.hash))
                THEN (SELECT jsonb_agg(t.name) FROM {schema}.topics t WHERE hashtext(t.name)::oid = ANY (writer.topics))
                END)), '[]')::text AS holders
       FROM (SELECT l.virtualtransaction AS id,
                    jsonb_agg(l.objid::bigint) FILTER (WHERE l.classid = hashtext('{schema}.order')::oid) AS buckets,
                    array_agg(l.objid) FILTER (WHERE l.classid = hashtext('{schema}.order.topics')::oid) AS topics
               FROM pg_locks l
              WHERE drawn.newest IS NOT NULL AND l.granted
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND (l.locktype = 'advisory' AND l.objsubid = 2
                     AND l.classid IN (hashtext('{schema}.order')::oid, hashtext('{schema}.order.topics')::oid)
                     OR l.locktype = 'relation' AND l.relation = '{schema}.events'::regclass AND l.mode = 'RowExclusiveLock')
              GROUP BY l.virtualtransaction HAVING bool_or(l.locktype = 'relation')) AS writer
      WHERE writer.buckets IS NOT NULL) held
