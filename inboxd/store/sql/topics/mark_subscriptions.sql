-- Record since when no living worker declares a subscription, or that one declares it again.
-- parameters: none
-- returns: topic and type of each that is marked now
-- locks: the rows that change
WITH judged AS (
    SELECT s.type, s.topic, s.undeclared_at IS NULL AS was_declared,
           EXISTS (SELECT FROM {schema}.workers w
                    WHERE w.state IN ('running', 'draining')
                      AND s.topic || chr(10) || s.type = ANY (w.subscriptions)) AS is_declared
      FROM {schema}.subscriptions s
)
UPDATE {schema}.subscriptions s
   SET undeclared_at = CASE WHEN judged.is_declared THEN NULL ELSE clock_timestamp() END
  FROM judged
 WHERE judged.type = s.type AND judged.topic = s.topic AND judged.was_declared <> judged.is_declared
RETURNING CASE WHEN NOT judged.is_declared THEN s.topic END AS topic, s.type
