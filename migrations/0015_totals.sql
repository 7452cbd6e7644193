-- How many settled rows finished days have: counted once, so that a total is true at any size.
-- oldest code: 3
--
-- Code of before does not count. Its leader trims, attaches and copies bodies by functions, which change with this
-- migration and do what the census needs; an erasure by its command line leaves a tenant's count in its days.

-- A partition of history whose day is over. A count writes `begun_at` first; what changes a day (a type is trimmed, rows
-- are erased) writes it too, in its own transaction (begin_census): a count that began before is thrown away.
CREATE TABLE {schema}.census (
    part       text PRIMARY KEY,
    parent     text NOT NULL CHECK (parent IN ('events_history', 'commands_history')),
    begun_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    counted_at timestamptz,                  -- NULL: what follows, and its rows below, do not count
    succeeded  bigint NOT NULL DEFAULT 0,
    failed     bigint NOT NULL DEFAULT 0,
    cancelled  bigint NOT NULL DEFAULT 0,
    dismissed  bigint NOT NULL DEFAULT 0,
    -- Rows that are not told apart below, since their day has too many types, or tenants.
    types_left   bigint NOT NULL DEFAULT 0,
    tenants_left bigint NOT NULL DEFAULT 0
);

-- What a day has, by type and by tenant. A day has rows here only while its count counts.
CREATE TABLE {schema}.census_types (
    part   text NOT NULL REFERENCES {schema}.census ON DELETE CASCADE,
    parent text NOT NULL,
    type   text NOT NULL,
    status text NOT NULL,
    rows   bigint NOT NULL
);
CREATE INDEX census_types_type ON {schema}.census_types (type, parent);
CREATE INDEX census_types_part ON {schema}.census_types (part);

CREATE TABLE {schema}.census_tenants (
    part   text NOT NULL REFERENCES {schema}.census ON DELETE CASCADE,
    parent text NOT NULL,
    tenant text NOT NULL,
    type   text NOT NULL,
    status text NOT NULL,
    rows   bigint NOT NULL
);
CREATE INDEX census_tenants_tenant ON {schema}.census_tenants (tenant, parent);
CREATE INDEX census_tenants_part ON {schema}.census_tenants (part);

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE
           ON {schema}.census, {schema}.census_types, {schema}.census_tenants TO {schema}_worker;
    END IF;
END
$do$;
