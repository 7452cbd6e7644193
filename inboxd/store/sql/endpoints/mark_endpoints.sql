-- Record since when no living worker's settings have an endpoint, or that some have it again; one statement for all.
-- parameters: none
-- returns: name of each that is marked now
-- locks: the rows that change
WITH judged AS (
    SELECT e.name, e.undeclared_at IS NULL AS was_declared,
           EXISTS (SELECT FROM {schema}.workers w
                    WHERE w.state IN ('running', 'draining') AND e.name = ANY (w.endpoints)) AS is_declared
      FROM {schema}.endpoints e
     WHERE e.managed_by = 'settings'
)
UPDATE {schema}.endpoints e
   SET undeclared_at = CASE WHEN judged.is_declared THEN NULL ELSE clock_timestamp() END
  FROM judged
 WHERE judged.name = e.name AND judged.was_declared <> judged.is_declared
RETURNING CASE WHEN NOT judged.is_declared THEN e.name END AS name
