-- Which migrations of plugins ran (docs/plugins.md). A plugin's own tables are no part of this schema.
-- oldest code: 3

CREATE TABLE {schema}.plugin_migrations (
    plugin       text NOT NULL,
    version      integer NOT NULL,
    name         text NOT NULL,
    checksum     text NOT NULL,
    distribution text NOT NULL,  -- that shipped the file, with its version
    applied_at   timestamptz NOT NULL DEFAULT now(),
    applied_by   text NOT NULL DEFAULT current_user,
    PRIMARY KEY (plugin, version)
);

-- A worker looks whether those of its plugins ran, and runs none.
DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT ON {schema}.plugin_migrations TO {schema}_worker;
    END IF;
END
$do$;
