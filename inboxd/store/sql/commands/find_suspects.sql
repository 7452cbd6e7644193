-- The groups of suspects that wait to run, by queue and type (ADR 20); the group that was taken back first comes first.
-- A suspect in the line of its key may have to wait for others as well.
-- parameters: none
-- returns: group, queue, type, alone (it runs alone), keyed (some have ordering keys), oldest (seconds that its
--          oldest due row has waited; null: none is due), next (seconds until its next row is due), since
--          (seconds since it was taken back)
-- locks: nothing
SELECT c.suspect_group AS "group", c.queue, c.type, bool_or(c.lone_crashes IS NOT NULL) AS alone,
       bool_or(c.ordering_key IS NOT NULL) AS keyed,
       extract(epoch FROM clock_timestamp() - min(c.run_at) FILTER (WHERE c.run_at <= now()))::double precision
           AS oldest,
       extract(epoch FROM min(c.run_at) FILTER (WHERE c.run_at > now()) - clock_timestamp())::double precision
           AS next,
       extract(epoch FROM clock_timestamp() - min(c.updated_at))::double precision AS since
  FROM {schema}.commands c
 WHERE c.suspect_group IS NOT NULL
   AND CASE WHEN c.suspect_group IS NOT NULL
            THEN c.status = 'pending' OR c.status = 'waiting' AND c.line_at IS NOT NULL END
 GROUP BY c.suspect_group, c.queue, c.type
 ORDER BY min(c.updated_at), c.suspect_group, c.queue, c.type
