-- Take back the commands of a dead worker; each counts a crash, not an attempt. They become suspects (ADR 20): commands
-- that were no suspects form a new group, named by the worker; each earlier group is halved into two groups, so that a
-- few more deaths isolate the cause. A command that is alone in its group, after it died with others twice, runs alone
-- from now on. Only deaths while nothing else ran on the worker count against it; the last one allowed makes it a dead
-- letter.
-- parameters: $1 uuid worker, $2 integer such deaths that make a dead letter
-- returns: id, type, status of each
-- locks: the rows, NOWAIT: a transaction that holds one is settling it, and a settlement locks its rows in the order in
--        which its plan finds them, so waiting here could end in a deadlock (55P03, lock_not_available)
WITH held AS MATERIALIZED (
    SELECT c.id, c.suspect_group, c.lone_crashes, c.alone_fence = c.fence AS alone FROM {schema}.commands c
     WHERE c.worker_id = $1::uuid AND c.status = 'running' FOR UPDATE NOWAIT
), placed AS (
    SELECT h.*, count(*) OVER () AS beside,
           2 * row_number() OVER (PARTITION BY h.suspect_group ORDER BY h.id)
               > count(*) OVER (PARTITION BY h.suspect_group) + 1 AS second_half
      FROM held h
), half AS MATERIALIZED (
    SELECT p.suspect_group, p.second_half, {schema}.new_uuid() AS name, count(*) AS members
      FROM placed p WHERE p.suspect_group IS NOT NULL GROUP BY p.suspect_group, p.second_half
), judged AS MATERIALIZED (
    SELECT p.id, coalesce(half.name, $1::uuid) AS name,
           CASE WHEN p.lone_crashes IS NOT NULL
                THEN p.lone_crashes + CASE WHEN p.alone AND p.beside = 1 THEN 1 ELSE 0 END
                WHEN half.members = 1 THEN 0 END AS lone_crashes
      FROM placed p
      LEFT JOIN half ON half.suspect_group = p.suspect_group AND half.second_half = p.second_half
)
UPDATE {schema}.commands c
   SET status = CASE WHEN judged.lone_crashes >= $2 THEN 'failed' ELSE 'pending' END,
       crashes = least(c.crashes + 1, 32767),
       suspect_group = CASE WHEN judged.lone_crashes >= $2 THEN NULL ELSE judged.name END,
       lone_crashes = judged.lone_crashes,
       worker_id = NULL,
       started_at = NULL,
       errors = CASE WHEN jsonb_array_length(c.errors) >= 50 THEN c.errors - 0 ELSE coalesce(c.errors, '[]') END
                || (jsonb_build_object('at', clock_timestamp(), 'attempt', c.attempts + 1, 'worker', $1::uuid,
                                       'process', (SELECT w.host || ':' || w.pid FROM {schema}.workers w
                                                    WHERE w.id = $1::uuid),
                                       'error', 'WorkerDied: the worker died while it ran this command')
                    || jsonb_strip_nulls(jsonb_build_object('release', (SELECT w.release FROM {schema}.workers w
                                                                         WHERE w.id = $1::uuid)))),
       fingerprint = 'worker-died:' || c.type,
       updated_at = clock_timestamp()
  FROM judged
 WHERE c.id BETWEEN judged.id AND judged.id
RETURNING c.id, c.type, c.status
