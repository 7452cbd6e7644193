-- Lock one schedule that an operator runs, changes or removes, until the transaction ends, due or not.
-- parameters: $1 text name
-- returns: id, name, source, cron, zone, missed, kind, type, schema_version, lane, priority, tenant, payload, time_field,
--          title, description, next_at, last_at, undeclared_at (null of an added one), added_at, now (clock_timestamp());
--          no row if it does not exist
-- locks: the row, FOR UPDATE
SELECT id, name, source, cron, zone, missed, kind, type, schema_version, lane, priority, tenant, payload, time_field,
       title, description, next_at, last_at, CASE WHEN added_at IS NULL THEN undeclared_at END AS undeclared_at, added_at,
       clock_timestamp() AS now
  FROM {schema}.schedules WHERE name = $1 FOR UPDATE
