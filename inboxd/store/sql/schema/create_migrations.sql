-- Create the schema and its tables of what ran, before the first migration; do nothing if they exist.
-- parameters: none
-- returns: nothing
-- locks: the new tables
DO $$
BEGIN
    IF to_regclass('{schema}.schema_migrations') IS NULL THEN
        CREATE SCHEMA IF NOT EXISTS {schema};
        CREATE TABLE {schema}.schema_migrations (
            version     integer PRIMARY KEY,
            name        text NOT NULL,
            oldest_code integer NOT NULL,
            checksum    text NOT NULL,
            applied_at  timestamptz NOT NULL DEFAULT now(),
            applied_by  text NOT NULL DEFAULT current_user
        );
        CREATE TABLE {schema}.schema_functions (
            name        text PRIMARY KEY,
            checksum    text NOT NULL,
            applied_at  timestamptz NOT NULL DEFAULT now(),
            applied_by  text NOT NULL DEFAULT current_user
        );
    END IF;
END
$$
