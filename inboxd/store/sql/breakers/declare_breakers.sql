-- Write down that breakers exist, and what needs them; what others declared stays.
-- parameters: $1 text[] names, $2 text[] what needs the breaker of the same place, one use each, null: nothing
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.breakers AS old (name, uses)
SELECT name, coalesce(array_agg(use ORDER BY use) FILTER (WHERE use IS NOT NULL), '{}')
  FROM unnest($1::text[], $2::text[]) AS given (name, use)
 GROUP BY name
 ORDER BY name
    ON CONFLICT (name) DO UPDATE
   SET uses = ARRAY(SELECT DISTINCT use FROM unnest(old.uses || excluded.uses) AS known (use) ORDER BY use)
 WHERE NOT old.uses @> excluded.uses
