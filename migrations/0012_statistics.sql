-- Statistics that are rolled up: minutes, hours and days, with histograms, lanes and tenants.
-- oldest code: 3
--
-- Code of before writes, and reads, `stats` alone. The leader takes over what is there, also the rows that an older
-- worker writes beside newer ones; older commands show less meanwhile. `stats` goes when no such code can run any more.

-- What workers counted, in the order in which they wrote it: each row is to be added to those below. The leader does
-- so every few seconds, and removes it in the same transaction; readers add what is still here. No row is updated.
CREATE TABLE {schema}.stats_written (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    minute             timestamptz NOT NULL,
    kind               text NOT NULL,
    lane               text NOT NULL,  -- topic or queue
    type               text NOT NULL,
    outcome            text NOT NULL,
    after              text NOT NULL,  -- what these executions followed: retry, replay; empty: nothing
    tenant             text,
    count              bigint NOT NULL,
    run_total          double precision,  -- seconds, as all that follows
    run_maximum        real,
    run_histogram        integer[],
    wait_total         double precision,
    wait_maximum       real,
    wait_histogram       integer[],
    completion_total   double precision,
    completion_maximum real,
    completion_histogram integer[]
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000);
CREATE INDEX stats_written_minute ON {schema}.stats_written (minute);

-- What is counted apart, by a number: names are long, and each minute would repeat them.
CREATE TABLE {schema}.stats_series (
    id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind    text NOT NULL,
    lane    text NOT NULL,
    type    text NOT NULL,
    outcome text NOT NULL,
    after   text NOT NULL,
    UNIQUE (type, kind, lane, outcome, after)
);

-- Counts of all workers together. A histogram: how many took less than 1 ms, 2 ms, 4 ms and so on, up to the last that is
-- not 0; see inboxd/model/durations.py. NULL: nothing was measured. The index by time is of an expression, so that it
-- serves who asks by time, and the other one who asks by series (ADR 16).
CREATE TABLE {schema}.stats_minutes (
    at                 timestamptz NOT NULL,
    series             integer NOT NULL,
    run_maximum        real,
    wait_maximum       real,
    completion_maximum real,
    count              bigint NOT NULL,
    run_total          double precision,
    wait_total         double precision,
    completion_total   double precision,
    run_histogram        integer[],
    wait_histogram       integer[],
    completion_histogram integer[],
    PRIMARY KEY (series, at)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- The function, not AT TIME ZONE: PostgreSQL 15 tells that with more brackets, so it looked changed.
CREATE INDEX stats_minutes_at ON {schema}.stats_minutes (timezone('UTC', at));

-- The running hour and day are added to every minute: half of each page is left, so that a row stays on its page, and
-- those of one hour lie together.
CREATE TABLE {schema}.stats_hours (LIKE {schema}.stats_minutes, PRIMARY KEY (series, at))
    WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX stats_hours_at ON {schema}.stats_hours (timezone('UTC', at));

-- In UTC, as all of them.
CREATE TABLE {schema}.stats_days (LIKE {schema}.stats_minutes, PRIMARY KEY (series, at))
    WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX stats_days_at ON {schema}.stats_days (timezone('UTC', at));
ALTER TABLE {schema}.stats_days
    ALTER COLUMN run_histogram TYPE bigint[],
    ALTER COLUMN wait_histogram TYPE bigint[],
    ALTER COLUMN completion_histogram TYPE bigint[];

-- The tenants that are counted by name, as many as `history.stats_tenants` allows; others are `(other)`.
CREATE TABLE {schema}.stats_tenants (
    tenant  text PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT statement_timestamp()  -- to the day
);

-- The same counts again, by tenant: a copy of their own, so that who asks for all tenants reads none of it.
CREATE TABLE {schema}.stats_tenant_hours (
    tenant text NOT NULL,
    LIKE {schema}.stats_hours,
    PRIMARY KEY (tenant, at, series)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX stats_tenant_hours_at ON {schema}.stats_tenant_hours (timezone('UTC', at));

CREATE TABLE {schema}.stats_tenant_days (
    tenant text NOT NULL,
    LIKE {schema}.stats_days,
    PRIMARY KEY (tenant, at, series)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX stats_tenant_days_at ON {schema}.stats_tenant_days (timezone('UTC', at));

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE
           ON {schema}.stats_written, {schema}.stats_series, {schema}.stats_minutes, {schema}.stats_hours,
              {schema}.stats_days, {schema}.stats_tenants, {schema}.stats_tenant_hours, {schema}.stats_tenant_days
           TO {schema}_worker;
    END IF;
END
$do$;
