-- The privileges that an operation needs and this role lacks, each with the statement that grants it.
-- parameters: arrays, one entry a right: $1 text[] privileges, $2 text[] tables, or functions where the privilege is EXECUTE,
--             $3 text[] columns, as "a, b" (null: the whole table)
-- returns: role, privilege, object, remedy (SQL); no row if none is missing
-- locks: nothing
SELECT quote_ident(current_user) AS role, needed.privilege, needed.object,
       format('GRANT %s%s ON %s{schema}.%I TO %I', needed.privilege, ' (' || needed.columns || ')',
              CASE WHEN needed.privilege = 'EXECUTE' THEN 'FUNCTION ' ELSE '' END, needed.object, current_user) AS remedy
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS needed(privilege, object, columns, place)
 WHERE CASE
       WHEN needed.privilege = 'EXECUTE' THEN EXISTS (
           SELECT FROM pg_proc p
            WHERE p.pronamespace = to_regnamespace('{schema}') AND p.proname = needed.object
              AND NOT has_function_privilege(p.oid, 'EXECUTE'))
       WHEN needed.columns IS NULL THEN
           NOT has_table_privilege(format('{schema}.%I', needed.object)::regclass, needed.privilege)
       ELSE EXISTS (
           SELECT FROM unnest(string_to_array(needed.columns, ', ')) AS of_table(name)
            WHERE NOT has_column_privilege(format('{schema}.%I', needed.object)::regclass, of_table.name, needed.privilege))
       END
 ORDER BY needed.place
