-- Record since when no living worker declares a schedule, or that a worker declares it again; a schedule that an
-- operator added needs no declaration.
-- parameters: none
-- returns: name of each that is marked now
-- locks: the rows that change
WITH judged AS (
    SELECT s.id, s.undeclared_at IS NULL AS was_declared,
           EXISTS (SELECT FROM {schema}.workers w
                    WHERE w.state IN ('running', 'draining') AND s.name = ANY (w.schedules)) AS is_declared
      FROM {schema}.schedules s WHERE s.added_at IS NULL
)
UPDATE {schema}.schedules s
   SET undeclared_at = CASE WHEN judged.is_declared THEN NULL ELSE clock_timestamp() END
  FROM judged
 WHERE judged.id = s.id AND judged.was_declared <> judged.is_declared
RETURNING CASE WHEN NOT judged.is_declared THEN s.name END AS name
