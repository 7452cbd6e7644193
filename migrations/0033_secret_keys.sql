-- Which keys of a type's payload its handlers declare as secrets (pydantic's SecretStr), so that screens and admin API hide their
-- values.
-- oldest code: 3
--
-- Code of before declares without them, and leaves what was declared as it is.

ALTER TABLE {schema}.declared_types
    ADD COLUMN secret_keys text[] NOT NULL DEFAULT '{}';  -- names of fields; '' is the payload itself

DO $do$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['{schema}_viewer', '{schema}_operator'] LOOP
        CONTINUE WHEN to_regrole(role) IS NULL;
        EXECUTE format('GRANT SELECT (secret_keys) ON {schema}.declared_types TO %I', role);
    END LOOP;
END
$do$;
