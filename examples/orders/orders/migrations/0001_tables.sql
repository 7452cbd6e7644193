-- The shop's own tables. Its services write them; the plugin keeps what it is told of users and
-- products, and flags what looks wrong.
CREATE SCHEMA shop;

CREATE TABLE shop.users (
    user_id   bigint PRIMARY KEY,
    country   text NOT NULL,
    status    text NOT NULL DEFAULT 'active',
    status_at timestamptz NOT NULL DEFAULT '-infinity'  -- when it became that
);

CREATE TABLE shop.products (
    product_id bigint PRIMARY KEY,
    status     text NOT NULL DEFAULT 'offered',
    status_at  timestamptz NOT NULL DEFAULT '-infinity'
);

CREATE TABLE shop.orders (
    order_id     bigint PRIMARY KEY,
    user_id      bigint NOT NULL REFERENCES shop.users,
    product_id   bigint NOT NULL REFERENCES shop.products,
    state        text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'shipped', 'held')),
    amount       numeric NOT NULL,
    card_country text,           -- of the card that pays; null: paid in advance
    flagged      text            -- why it is held
);

-- One row a review, with what came of it.
CREATE TABLE shop.reviews (
    event_id uuid PRIMARY KEY,   -- the event that asked for it
    cause    text NOT NULL,      -- such as user 7, or product 3
    orders   integer NOT NULL,
    held     integer             -- null: still under way
);

-- Messages to customers.
CREATE TABLE shop.notices (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL REFERENCES shop.orders,
    text     text NOT NULL
);
