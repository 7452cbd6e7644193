-- The shop's own tables. Its services write them; the plugin flags what looks wrong.
CREATE SCHEMA IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.users (
    user_id bigint PRIMARY KEY,
    country text NOT NULL
);

CREATE TABLE IF NOT EXISTS shop.orders (
    order_id     bigint PRIMARY KEY,
    user_id      bigint NOT NULL REFERENCES shop.users,
    state        text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'shipped', 'held')),
    amount       numeric NOT NULL,
    card_country text,           -- of the card that pays; null: paid in advance
    flagged      text            -- why it is held
);

-- One row a review, with what came of it.
CREATE TABLE IF NOT EXISTS shop.reviews (
    user_id  bigint NOT NULL REFERENCES shop.users,
    event_id uuid PRIMARY KEY,   -- the event that asked for it
    orders   integer NOT NULL,
    held     integer             -- null: still under way
);
