-- Lock one schedule that an operator runs, changes or removes, until the transaction ends, due or not.
-- parameters: $1 text name
-- returns: the fields of a schedule (`Schedule`), id, next_at, last_at, undeclared_at (null of an added one), added_at, now
--          (clock_timestamp()); no row if it does not exist
-- locks: the row, FOR UPDATE
SELECT {each field schedule: NAME}, id, next_at, last_at,
       CASE WHEN added_at IS NULL THEN undeclared_at END AS undeclared_at, added_at,
       clock_timestamp() AS now
  FROM {schema}.schedules WHERE name = $1 FOR UPDATE
