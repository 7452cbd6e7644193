-- The locks that reading all days of history needs, and the number of locks for which the server has room.
-- parameters: none
-- returns: days (tables of days of both histories), locks (of these and their indexes), most (shared by all sessions),
--          each (max_locks_per_transaction)
-- locks: nothing
SELECT sum(h.days)::bigint AS days, sum(h.days * (1 + h.indexes))::bigint AS locks,
       s.each * (s.sessions + current_setting('max_prepared_transactions')::bigint) AS most, s.each
  FROM (SELECT current_setting('max_locks_per_transaction')::bigint AS each,
               current_setting('max_connections')::bigint AS sessions) s
 CROSS JOIN (SELECT (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = t.oid) AS days,
                    (SELECT count(*) FROM pg_index i WHERE i.indrelid = t.oid) AS indexes
               FROM unnest(ARRAY['{schema}.events_history', '{schema}.commands_history']::regclass[]) AS t(oid)) h
 GROUP BY s.each, s.sessions
