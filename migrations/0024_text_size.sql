-- A payload is large, too, if its text is: jsonb keeps 1e308 in a dozen bytes, and writes out all of its digits.
-- oldest code: 3

CREATE OR REPLACE TRIGGER events_body BEFORE INSERT ON {schema}.events FOR EACH ROW
    WHEN (pg_column_size(NEW.payload) > 1500 OR octet_length(NEW.payload::text) > 6000)
    EXECUTE FUNCTION {schema}.put_body();
CREATE OR REPLACE TRIGGER commands_body BEFORE INSERT ON {schema}.commands FOR EACH ROW
    WHEN (pg_column_size(NEW.payload) > 1500 OR octet_length(NEW.payload::text) > 6000)
    EXECUTE FUNCTION {schema}.put_body();
