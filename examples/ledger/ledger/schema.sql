-- The bank's own table: one report a branch, currency and day.
CREATE SCHEMA IF NOT EXISTS bank;

CREATE TABLE IF NOT EXISTS bank.daily_reports (
    branch       text NOT NULL,
    day          date NOT NULL,
    currency     text NOT NULL,
    transactions bigint NOT NULL,
    total        numeric NOT NULL,
    PRIMARY KEY (branch, day, currency)
);
