-- End the sessions of workers that stopped in a transaction where the server's own time limits do
-- not see it: between the messages of one statement (`statement_timeout` was stopped or is not
-- heeded there, `idle_in_transaction_session_timeout` not begun), or while nobody reads what it
-- answers. COPY waits for its client as a matter of course. By the server's own clock, as state_change is, also where
-- tests move another. Ended in the list of columns: among conditions, the server chooses which comes first.
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
