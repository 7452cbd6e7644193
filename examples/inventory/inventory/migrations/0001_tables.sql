-- The warehouse's own tables: the stock, and a copy of it that is kept without deduplication.
CREATE SCHEMA warehouse;
CREATE TABLE warehouse.stock (article text PRIMARY KEY, pieces integer NOT NULL);
CREATE TABLE warehouse.careless_stock (LIKE warehouse.stock INCLUDING ALL);
