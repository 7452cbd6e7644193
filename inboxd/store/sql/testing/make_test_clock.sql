-- A clock that tests can move: functions with the names of the server's, which add the travelled time. Objects and sessions
-- with this schema before pg_catalog in their search_path use it. CURRENT_TIMESTAMP is not a function, and stays.
-- parameters: none
-- returns: nothing
-- locks: nothing
DO $$
BEGIN
    CREATE SCHEMA inboxd_clock;
    CREATE TABLE inboxd_clock.travelled (by interval NOT NULL);
    INSERT INTO inboxd_clock.travelled VALUES ('0');
    CREATE FUNCTION inboxd_clock.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
        AS 'SELECT pg_catalog.now() + (SELECT by FROM inboxd_clock.travelled)';
    CREATE FUNCTION inboxd_clock.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
        AS 'SELECT pg_catalog.now() + (SELECT by FROM inboxd_clock.travelled)';
    CREATE FUNCTION inboxd_clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
        AS 'SELECT pg_catalog.statement_timestamp() + (SELECT by FROM inboxd_clock.travelled)';
    CREATE FUNCTION inboxd_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
        AS 'SELECT pg_catalog.clock_timestamp() + (SELECT by FROM inboxd_clock.travelled)';
    GRANT USAGE ON SCHEMA inboxd_clock TO PUBLIC;
    GRANT SELECT ON inboxd_clock.travelled TO PUBLIC;
END
$$
