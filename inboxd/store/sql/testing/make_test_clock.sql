-- A clock that tests can move: functions of the server's names, which add what was travelled. Whatever is made or run
-- with this schema before pg_catalog in its search_path goes by it. CURRENT_TIMESTAMP is no function, and stays.
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
