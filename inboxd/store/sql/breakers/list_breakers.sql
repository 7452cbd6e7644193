-- Breakers for operators by name: all, or one, or those that any of some uses needs.
-- parameters: $1 text name (null: all), $2 text[] uses, such as 'command mail.send' (null: all),
--             $3 text after this name (null: from the first on), $4 integer rows (null: all)
-- returns: name, mode, state, opens, open_until, rest (seconds until the break ends), prober (the worker that probes,
--   by name), reason, actor, forced_for, uses, changed_at
-- locks: nothing
SELECT b.name, b.mode, b.state, b.opens, b.open_until,
       greatest(0, extract(epoch FROM b.open_until - clock_timestamp()))::float8 AS rest,
       CASE WHEN b.probe_until > clock_timestamp() THEN coalesce(w.name, b.probe_by::text) END AS prober,
       {content text: b.reason} AS reason, b.actor, b.forced_for, b.uses, b.changed_at
  FROM {schema}.breakers b
  LEFT JOIN {schema}.workers w ON w.id = b.probe_by
 WHERE b.name > coalesce($3::text, '') AND ($1::text IS NULL OR b.name = $1) AND ($2::text[] IS NULL OR b.uses && $2)
 ORDER BY b.name LIMIT $4::integer
