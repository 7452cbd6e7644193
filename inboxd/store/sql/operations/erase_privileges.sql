-- What this role lacks to erase.
-- parameters: none
-- returns: privilege, object
-- locks: nothing
SELECT privilege, object
  FROM (VALUES ('UPDATE', 'events_history'), ('UPDATE', 'commands_history'), ('DELETE', 'bodies'), ('UPDATE', 'receipts'),
               ('UPDATE', 'kept_receipts'), ('UPDATE', 'held_receipts'),
               ('SELECT', 'bodies'), ('DELETE', 'events'), ('DELETE', 'commands'), ('UPDATE', 'audit'),
               ('SELECT', 'census'), ('INSERT', 'census'), ('UPDATE', 'census'), ('SELECT', 'census_types'),
               ('DELETE', 'census_types'), ('SELECT', 'census_tenants'), ('DELETE', 'census_tenants'))
       AS needed(privilege, object)
 WHERE NOT has_table_privilege(format('{schema}.%I', object)::regclass, privilege)
 UNION ALL
SELECT 'EXECUTE', object
  FROM (VALUES ('begin_census(text, text)'), ('erase_receipts(uuid[])')) AS called(object)
 WHERE NOT has_function_privilege('{schema}.' || object, 'EXECUTE')
