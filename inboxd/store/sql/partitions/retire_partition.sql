-- Write down that an attached partition is to go, before anything is done to it; not again what another leader
-- has dropped since this statement saw it: a name may still be found in the session's cache then, a size
-- is asked of the table itself.
-- parameters: $1 text part
-- returns: nothing
-- locks: the row
INSERT INTO {schema}.retired AS old (part, parent, low, high)
SELECT part, parent, low, high FROM {schema}.every_partition WHERE part = $1
ON CONFLICT (part) DO UPDATE
   SET low = excluded.low, high = excluded.high, retired_at = now(), rows = NULL, bytes = NULL,
       file = NULL, exported_at = NULL, dropped_at = NULL
 WHERE old.dropped_at IS NOT NULL AND pg_relation_size(to_regclass('{schema}.' || old.part)) IS NOT NULL
