-- Record since when no living worker declares a topic, or that one declares it again.
-- parameters: none
-- returns: name of each that is marked now
-- locks: the rows that change
WITH judged AS (
    SELECT t.name, t.undeclared_at IS NULL AS was_declared,
           EXISTS (SELECT FROM {schema}.workers w
                    WHERE w.state IN ('running', 'draining') AND t.name = ANY (w.topics)) AS is_declared
      FROM {schema}.topics t
)
UPDATE {schema}.topics t
   SET undeclared_at = CASE WHEN judged.is_declared THEN NULL ELSE clock_timestamp() END
  FROM judged
 WHERE judged.name = t.name AND judged.was_declared <> judged.is_declared
RETURNING CASE WHEN NOT judged.is_declared THEN t.name END AS name
