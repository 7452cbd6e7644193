-- Take the buckets of the lines in which these events are, waiting for who has them: as hold_lines.sql.
-- parameters: $1 bigint[] ids, $2 uuid[] event_ids
-- returns: a row for each bucket
-- locks: those buckets, exclusively, until the transaction ends
SELECT pg_advisory_xact_lock(hashtext('{schema}/' || line.topic), line.bucket)
  FROM (SELECT DISTINCT own.topic, own.bucket
          FROM (SELECT e.topic, e.bucket, e.mode FROM {schema}.events e WHERE e.id = ANY ($1::bigint[])
                UNION ALL
                SELECT e.topic, e.bucket, e.mode FROM {schema}.events e WHERE e.event_id = ANY ($2::uuid[])) own
         WHERE own.mode <> 'single' ORDER BY own.topic, own.bucket) line
