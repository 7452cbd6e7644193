-- The programme's own tables.
CREATE SCHEMA rewards;

CREATE TABLE rewards.accounts (
    user_id bigint PRIMARY KEY,
    points  bigint NOT NULL DEFAULT 0 CHECK (points >= 0),
    events  integer NOT NULL DEFAULT 0
);

CREATE TABLE rewards.letters (
    user_id    bigint NOT NULL REFERENCES rewards.accounts,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
