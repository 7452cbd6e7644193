-- A page of events that handlers emitted is joined by hashing, in the daemon's sessions too.
-- oldest code: 4
--
-- These sessions join by nested loops only (ADR 16), since large tables are to be met by their indexes. What this
-- function joins is the page with itself: 1,000 rows were compared a million times.

ALTER FUNCTION {schema}.write_events SET enable_hashjoin = on;
