-- The numbers of suspects, commands that ran on a worker when it died (ADR 20), and of their groups.
-- parameters: $1 integer: where counting stops
-- returns: waiting (rows that wait to run), running, alone (rows that run alone, or are to), groups,
--          oldest (seconds that the first due one that is not paused has waited, since it was taken back or due;
--          null: none is due)
-- locks: nothing
SELECT count(*) FILTER (WHERE status <> 'running') AS waiting,
       count(*) FILTER (WHERE status = 'running') AS running,
       count(*) FILTER (WHERE lone_crashes IS NOT NULL) AS alone,
       count(DISTINCT suspect_group) AS groups,
       extract(epoch FROM clock_timestamp() - min(greatest(updated_at, run_at))
                          FILTER (WHERE status <> 'running' AND run_at <= now() AND NOT paused))::double precision
           AS oldest
  FROM (SELECT c.status, c.lone_crashes, c.suspect_group, c.updated_at, c.run_at,
               EXISTS (SELECT FROM {schema}.controls k
                        WHERE k.kind = 'queue' AND k.name = c.queue OR k.kind = 'type' AND k.name = c.type) AS paused
          FROM {schema}.commands c
         WHERE c.suspect_group IS NOT NULL LIMIT $1) AS suspect
