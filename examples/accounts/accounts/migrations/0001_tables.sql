-- The registration's own tables. They know nothing of inboxd: the service writes its commands beside
-- them, in one transaction.

CREATE SCHEMA registration;

CREATE TABLE registration.users (
    -- Made of the address, and the only unique index: ON CONFLICT names one, and two requests at the
    -- same moment can collide at a second, which is an error.
    user_id        uuid PRIMARY KEY,
    email          text NOT NULL,
    -- The name of the whole story, which all services log.
    correlation_id text NOT NULL,
    registered_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the accounts service had provisioned the user; NULL: pending.
    provisioned_at timestamptz,
    -- When the payment gateway had charged the fee.
    charged_at     timestamptz
);
