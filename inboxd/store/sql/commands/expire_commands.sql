-- Cancel a page of commands that have not started by their expires_at, whatever kept them from it. A row that another session
-- holds is left for the next call: if it is being claimed, its worker decides.
-- Rows without dependencies are locked without a wait, before hold_ending locks the others in the order of all code.
-- parameters: $1 integer rows
-- returns: queue, type, commands: the number of those that ended; fewer than $1 in all mean that the rest waits for the next call
-- locks: the rows; then the rows that wait for them (hold_ending)
WITH due AS MATERIALIZED (
    SELECT id, needs FROM {schema}.commands
     WHERE expires_at IS NOT NULL AND attempts = 0 AND crashes = 0 AND status IN ('pending', 'waiting')
       AND expires_at <= statement_timestamp()
     ORDER BY expires_at LIMIT $1
), free AS MATERIALIZED (
    SELECT c.id FROM due JOIN {schema}.commands c ON c.id BETWEEN due.id AND due.id
     WHERE due.needs = 0 FOR UPDATE OF c SKIP LOCKED
), page AS MATERIALIZED (
    SELECT array_agg(id) AS ids FROM (SELECT id FROM free UNION ALL SELECT id FROM due WHERE needs > 0) AS each
), held AS MATERIALIZED (
    SELECT page.ids, {schema}.hold_ending(page.ids, ARRAY['cancelled']) FROM page WHERE page.ids IS NOT NULL
), gone AS MATERIALIZED (
    SELECT put.id FROM held CROSS JOIN LATERAL {schema}.put_away(held.ids, 'expired') AS put(id)
)
SELECT c.queue, c.type, count(*)::integer AS commands
  FROM gone JOIN {schema}.commands c ON c.id BETWEEN gone.id AND gone.id  -- as this statement's snapshot has them
 GROUP BY c.queue, c.type
