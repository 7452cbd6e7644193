-- The bank's own tables: one report a branch, currency and day, and one summary a branch and day.
CREATE SCHEMA bank;

CREATE TABLE bank.daily_reports (
    branch       text NOT NULL,
    day          date NOT NULL,
    currency     text NOT NULL,
    transactions bigint NOT NULL,
    received     numeric NOT NULL,
    paid         numeric NOT NULL,
    largest      numeric NOT NULL,
    total        numeric GENERATED ALWAYS AS (received - paid) STORED,
    -- Of what a transaction moved, in or out.
    average      numeric GENERATED ALWAYS AS (round((received + paid) / transactions, 2)) STORED,
    PRIMARY KEY (branch, day, currency)
);

CREATE TABLE bank.daily_summaries (
    branch       text NOT NULL,
    day          date NOT NULL,
    transactions bigint NOT NULL,
    rejected     bigint NOT NULL,
    busiest_hour integer,           -- null: nothing happened
    text         text NOT NULL,
    PRIMARY KEY (branch, day)
);

-- The whole bank.
CREATE VIEW bank.daily_totals AS
SELECT day, currency, count(*) AS branches, sum(transactions) AS transactions,
       sum(received) AS received, sum(paid) AS paid, sum(total) AS total,
       round(sum(received + paid) / sum(transactions), 2) AS average, max(largest) AS largest
  FROM bank.daily_reports
 GROUP BY day, currency;
