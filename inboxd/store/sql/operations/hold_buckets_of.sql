-- Lock the buckets of the lines of these events, waiting for other holders: as hold_buckets.sql.
-- parameters: $1 bigint[] ids, $2 uuid[] event_ids
-- returns: a row for each bucket
-- locks: those buckets, exclusively, until the transaction ends
SELECT pg_advisory_xact_lock(hashtext('{schema}/' || line.topic), line.bucket)
  FROM (SELECT DISTINCT own.topic, own.bucket
          FROM (SELECT e.* FROM unnest($1::bigint[]) AS given(id)
                 CROSS JOIN LATERAL (SELECT topic, bucket, mode FROM {schema}.events WHERE id = given.id OFFSET 0) e
                UNION ALL
                SELECT e.* FROM unnest($2::uuid[]) AS given(id)
                 CROSS JOIN LATERAL (SELECT topic, bucket, mode FROM {schema}.events WHERE event_id = given.id OFFSET 0) e
               ) own
         WHERE own.mode <> 'single' ORDER BY own.topic, own.bucket) line
