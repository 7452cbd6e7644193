-- How new rows become known: the flags, the listening sessions, and the fill of the notification queue.
-- parameters: $1 text end of the application's name of a listening session
-- returns: events, commands (the flags: 0 silent, 1 notify, 2 off; null: never set), listeners, usage (0 to 1)
-- locks: nothing
SELECT pg_sequence_last_value('{schema}.events_flag'::regclass) AS events,
       pg_sequence_last_value('{schema}.commands_flag'::regclass) AS commands,
       (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND right(application_name, length($1)) = $1) AS listeners,
       pg_notification_queue_usage() AS usage
