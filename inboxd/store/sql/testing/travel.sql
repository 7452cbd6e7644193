-- Move the clock of tests.
-- parameters: $1 double precision seconds (added to the earlier ones), or null and $2 timestamptz the new
--             time
-- returns: travelled (interval in all), now (the new time)
-- locks: the clock's row
UPDATE inboxd_clock.travelled
   SET by = CASE WHEN $1::double precision IS NULL
                 THEN make_interval(secs => extract(epoch FROM $2::timestamptz - pg_catalog.clock_timestamp()))
                 ELSE by + make_interval(secs => $1) END
RETURNING by AS travelled, pg_catalog.clock_timestamp() + by AS now
