-- Whether this login may see the outcome of a command or a batch that «sender» sent: it is that login or a member of it, or
-- it may read all results, as workers and operators do, also by SET ROLE. Rows from before the column sender have NULL: every login that
-- knows their id may see their outcome.
-- called by: await_end, close_batch, command_result, hold_open_batch
-- roles: none
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.is_of_login(sender text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT sender IS NULL OR sender = session_user
        OR has_column_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user),
                                '{schema}.commands'::regclass, 'result', 'SELECT')
        OR coalesce(pg_has_role(session_user, to_regrole(quote_ident(sender)), 'MEMBER'), false)
$$;
