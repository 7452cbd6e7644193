-- The platform's own tables.
CREATE SCHEMA betting;

-- The odds of a bet are those of its selections, multiplied; exactly, since they become money.
CREATE AGGREGATE betting.product(numeric) (SFUNC = numeric_mul, STYPE = numeric, INITCOND = '1');

-- Results; the first final one of a match counts.
CREATE TABLE betting.results (
    match_id          text PRIMARY KEY,
    home_score        integer NOT NULL,
    away_score        integer NOT NULL,
    status            text NOT NULL,
    provider_event_id text NOT NULL,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Results that came for a match that was final already: for people to look at.
CREATE TABLE betting.corrections (
    match_id          text NOT NULL,
    home_score        integer NOT NULL,
    away_score        integer NOT NULL,
    status            text NOT NULL,
    provider_event_id text NOT NULL,
    received_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE betting.bets (
    bet_id      bigint PRIMARY KEY,
    customer_id bigint NOT NULL,
    stake       numeric(12, 2) NOT NULL CHECK (stake > 0),
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'won', 'lost', 'refunded')),
    payout      numeric(12, 2),
    settled_at  timestamptz
);

-- A bet has one to many selections, each on one match.
CREATE TABLE betting.selections (
    bet_id   bigint NOT NULL REFERENCES betting.bets,
    match_id text NOT NULL,
    pick     text NOT NULL CHECK (pick IN ('home', 'draw', 'away')),
    odds     numeric(8, 2) NOT NULL CHECK (odds > 1),
    status   text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'won', 'lost', 'void')),
    PRIMARY KEY (bet_id, match_id)
);
-- Selections that a result still has to settle.
CREATE INDEX selections_pending ON betting.selections (match_id, bet_id) WHERE status = 'pending';

-- Where payments end in this example; a platform calls its service instead.
CREATE TABLE betting.payments (
    payment_id  uuid PRIMARY KEY,  -- the command's id: one payment, however often it is tried
    bet_id      bigint NOT NULL,
    customer_id bigint NOT NULL,
    amount      numeric(12, 2) NOT NULL,
    paid_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
