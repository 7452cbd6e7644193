-- An id of this database, and the timeline of its server, which changes with each promotion or recovery to a point in time.
-- If another database or a backup takes its place, the id or the timeline changes. If the server does not tell its system
-- identifier, the id is made of the oids of the database and the schema.
-- called by: the daemon
-- roles: worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.state_of_database(OUT database text, OUT timeline bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT format('%s.%s', d.oid, '{schema}'::regnamespace::oid), 0 INTO database, timeline
      FROM pg_database d WHERE d.datname = current_database();
    SELECT format('%s.%s', s.system_identifier, database), c.timeline_id INTO database, timeline
      FROM pg_control_system() s, pg_control_checkpoint() c;
EXCEPTION
    WHEN insufficient_privilege OR undefined_function THEN NULL;
END
$$;
