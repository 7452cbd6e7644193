-- Webhooks out: the endpoints that get them.
-- oldest code: 3
-- functions: first
--
-- Code of before knows nothing of them: its workers claim no deliveries, since none of its handlers is for them.

-- A row for each URL that gets webhooks: an operator's, or one of `[endpoints.NAME]`. Who changes what is delivered, or
-- whether, writes a new version; who writes what became of deliveries names the version that it knew. Every worker
-- reads all of them when it is notified, and every few seconds: they are thousands at most.

CREATE TABLE {schema}.endpoints (
    name            text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
    url             text NOT NULL CHECK (url ~ '^https?://[^\s]+$' AND octet_length(url) <= 2048),
    -- Exact names; `user.*`: all that begin with `user.`; `*`: all.
    types           text[] NOT NULL CHECK (cardinality(types) BETWEEN 1 AND 100
                                           AND array_position(types, NULL) IS NULL),
    tenant          text CHECK (octet_length(tenant) BETWEEN 1 AND 255),  -- only what is sent for it; NULL: all
    -- The newest first: [{"secret", "created_at", "expires_at"}]; all that have not expired sign.
    secrets         jsonb NOT NULL CHECK (jsonb_typeof(secrets) = 'array'
                                          AND jsonb_array_length(secrets) BETWEEN 1 AND 5),
    ordered         boolean NOT NULL DEFAULT false,  -- what has one ordering key is delivered in order
    rate            text CHECK (rate ~ '^[1-9][0-9]{0,8}/[smh]$'),
    concurrency     integer CHECK (concurrency BETWEEN 1 AND 100000),  -- deliveries at once, over all workers
    disable_after   interval NOT NULL DEFAULT '5 days' CHECK (disable_after > '0'),
    managed_by      text NOT NULL DEFAULT 'rows' CHECK (managed_by IN ('rows', 'settings')),
    undeclared_at   timestamptz,  -- since when no living worker's settings have it
    enabled         boolean NOT NULL DEFAULT true,
    disabled_at     timestamptz,
    -- failures: it failed for disable_after; gone: it answered 410; settings: they have it no more.
    disabled_by     text CHECK (disabled_by IN ('operator', 'failures', 'gone', 'settings')),
    disabled_reason text,
    failing_since   timestamptz,  -- the first failure since the last success
    last_success_at timestamptz,
    last_failure_at timestamptz,
    last_failure    text,
    last_status     integer,  -- of the last answer that was written down
    version         bigint NOT NULL DEFAULT 1,
    created_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    changed_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    CHECK (enabled = (disabled_at IS NULL)),
    CHECK (enabled = (disabled_by IS NULL)),
    CHECK (undeclared_at IS NULL OR managed_by = 'settings')
);

-- What changes no version is of no interest to workers.
CREATE TRIGGER endpoints_changed AFTER INSERT OR DELETE OR UPDATE OF version ON {schema}.endpoints
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.controls_changed();

-- Those of its settings, by name.
ALTER TABLE {schema}.workers ADD COLUMN endpoints text[] NOT NULL DEFAULT '{}';

-- A producer calls send_webhook, and reads neither secrets nor addresses.
DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.endpoints TO {schema}_worker;
    END IF;
END
$do$;
