-- Cancel those of these commands that have expired and are free. A row that another session holds is left alone: if it is
-- being claimed, its worker decides.
-- parameters: $1 bigint[] ids
-- returns: queue, type, commands: the number of those that ended
-- locks: the rows, SKIP LOCKED; then the rows that wait for them (hold_ending)
WITH free AS MATERIALIZED (
    SELECT c.id FROM {schema}.commands c
     WHERE c.id = ANY ($1::bigint[]) AND {has expired c} ORDER BY c.needs > 0, c.id FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT page.ids, {schema}.hold_ending(page.ids, ARRAY['cancelled'])
      FROM (SELECT array_agg(id) AS ids FROM free) AS page WHERE page.ids IS NOT NULL
), gone AS MATERIALIZED (
    SELECT put.id FROM held CROSS JOIN LATERAL {schema}.put_away(held.ids, 'expired') AS put(id)
)
SELECT c.queue, c.type, count(*)::integer AS commands
  FROM gone JOIN {schema}.commands c ON c.id BETWEEN gone.id AND gone.id  -- as this statement's snapshot has them
 GROUP BY c.queue, c.type
