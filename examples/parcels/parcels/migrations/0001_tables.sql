-- The parcels of a dispatch service, for many shops.

CREATE SCHEMA dispatch;

CREATE TABLE dispatch.parcels (
    order_id bigint PRIMARY KEY,
    address  text NOT NULL,
    state    text NOT NULL DEFAULT 'asked' CHECK (state IN ('asked', 'booked', 'refused')),
    number   text  -- the carrier's; NULL: not booked
);
