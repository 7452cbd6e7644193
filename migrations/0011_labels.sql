-- What types and schedules are called, and what they are for, in people's words: as the handlers' declarations say.
-- oldest code: 3
--
-- Code of before declares without these, and leaves what was declared with them as it is.

ALTER TABLE {schema}.declared_types
    ADD COLUMN title       text,  -- NULL: made from the type's name by whoever shows it
    ADD COLUMN description text;

ALTER TABLE {schema}.schedules
    ADD COLUMN title       text,
    ADD COLUMN description text;
