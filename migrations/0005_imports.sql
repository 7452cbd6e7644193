-- Files of events and commands that `emit --file` and `send --file` write: how far each has come.
-- oldest code: 3
--
-- A row is changed in the transaction that writes its lines, so a file that was interrupted goes on behind the last line
-- that committed. Only functions touch the table (open_import, advance_import): so a producer's role needs no right to it.
-- It has a row a file, and open_import forgets those that nobody went on with for a quarter of a year.

CREATE TABLE {schema}.imports (
    kind        text NOT NULL CHECK (kind IN ('event', 'command')),
    name        text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),  -- given, or the digest of the file
    lines       bigint NOT NULL DEFAULT 0,   -- of the file, up to the last one that is done with
    written     bigint NOT NULL DEFAULT 0,   -- of them new rows
    broken      bigint NOT NULL DEFAULT 0,   -- of them left out
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    finished_at timestamptz,
    PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);
