-- The endpoints among these names that an operator added.
-- parameters: $1 text[] names
-- returns: name of each
-- locks: nothing
SELECT name FROM {schema}.endpoints WHERE name = ANY ($1::text[]) AND managed_by = 'rows' ORDER BY name
