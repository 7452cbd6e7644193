-- Terminate sessions of workers that stopped in a transaction where the server's own time limits do not apply: between the
-- messages of one statement (`statement_timeout` has ended or does not apply there, `idle_in_transaction_session_timeout`
-- has not begun), or while the client does not read the answer. COPY waits for its client regularly. Times are by the
-- server's own clock, as state_change is, even if tests have moved another one. The call is in the list of columns, since
-- the server may evaluate conditions in any order.
-- parameters: $1 text how the sessions' names begin, $2 interval longest wait for a message,
--             $3 interval longest wait for the daemon to read an answer
-- returns: pid, application, waited (interval), query (its beginning, without parameters), ended
-- locks: nothing
SELECT pid, application, waited, left(query, 80) AS query, pg_terminate_backend(pid) AS ended
  FROM (SELECT pid, application_name AS application, pg_catalog.clock_timestamp() - state_change AS waited, query, wait_event
          FROM pg_stat_activity
         WHERE datname = current_database() AND usename = current_user AND starts_with(application_name, $1)
           AND state = 'active' AND xact_start IS NOT NULL AND wait_event_type = 'Client'
           AND query !~* '^\s*copy\M' OFFSET 0) a
 WHERE wait_event = 'ClientRead' AND waited > $2
    OR wait_event = 'ClientWrite' AND waited > $3 AND application LIKE '% daemon'
