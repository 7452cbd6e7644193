-- Record that an attached partition is to be removed, before its removal begins. If another leader has dropped it since
-- this statement read the catalogue, nothing is recorded again: the session's cache may still know the table's name, but
-- pg_relation_size is null.
-- parameters: $1 text part
-- returns: nothing
-- locks: the row
INSERT INTO {schema}.retired AS old (part, parent, low, high)
SELECT part, parent, low, high FROM {schema}.every_partition WHERE part = $1
ON CONFLICT (part) DO UPDATE
   SET low = excluded.low, high = excluded.high, retired_at = now(), rows = NULL, bytes = NULL,
       file = NULL, exported_at = NULL, dropped_at = NULL
 WHERE old.dropped_at IS NOT NULL AND pg_relation_size(to_regclass('{schema}.' || old.part)) IS NOT NULL
