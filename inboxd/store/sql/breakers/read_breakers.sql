-- All breakers, with times in seconds from now.
-- parameters: $1 uuid the worker that asks (null: none)
-- returns: name, mode, state, opens, rest (until the break ends), probed (until the probe expires), mine (whether
--   the probe is this worker's), version
-- locks: nothing
SELECT name, mode, state, opens,
       greatest(0, coalesce(extract(epoch FROM open_until - clock_timestamp()), 0))::float8 AS rest,
       greatest(0, coalesce(extract(epoch FROM probe_until - clock_timestamp()), 0))::float8 AS probed,
       coalesce(probe_by = $1, false) AS mine, version
  FROM {schema}.breakers
