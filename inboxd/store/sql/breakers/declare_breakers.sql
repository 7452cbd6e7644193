-- Record breakers, and the types and topics that need them; earlier declarations stay.
-- parameters: $1 text[] names, $2 text[] a use of each of them, such as 'command mail.send' (null: none)
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
