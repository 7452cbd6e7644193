-- What receivers tell of their spools. Beside it `erased` is new: a drain asks who was erased meanwhile.
-- oldest code: 3
-- functions: first
--
-- Receivers of before write their rows without these columns.

ALTER TABLE {schema}.receivers
    ADD COLUMN spooled text[] NOT NULL DEFAULT '{}',  -- the sources whose webhooks wait on its host's disk
    ADD COLUMN trouble text;                          -- why its spool takes nothing any more

-- Who was erased since then (the function erased), among all that was ever done.
CREATE INDEX audit_erased ON {schema}.audit (target, at) WHERE action = 'erase';

DO $do$
BEGIN
    -- In a new schema the function was made before the role was.
    IF to_regrole('{schema}_receiver') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION {schema}.erased TO {schema}_receiver;
    END IF;
END
$do$;
