-- The numbers of rows that this transaction has written so far, by table; partitions count as their table.
-- Rows of a rolled-back savepoint count too; TRUNCATE, and tables on other servers, do not. Earlier transactions of this
-- session may be included: the server counts them about once a second.
-- parameters: none
-- returns: name (with its schema), inserted, updated, deleted
-- locks: nothing
SELECT format('%I.%I', n.nspname, c.relname) AS name, sum(s.n_tup_ins)::bigint AS inserted,
       sum(s.n_tup_upd)::bigint AS updated, sum(s.n_tup_del)::bigint AS deleted
  FROM pg_stat_xact_user_tables s
  JOIN pg_class c ON c.oid = coalesce(pg_partition_root(s.relid), s.relid)
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0
 GROUP BY 1 ORDER BY 1
