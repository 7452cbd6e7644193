-- What this role lacks to erase.
-- parameters: none
-- returns: privilege, object
-- locks: nothing
SELECT privilege, object
  FROM (VALUES ('UPDATE', 'events_history'), ('UPDATE', 'commands_history'), ('DELETE', 'bodies'),
               ('SELECT', 'bodies'), ('DELETE', 'events'), ('DELETE', 'commands'), ('UPDATE', 'audit'))
       AS needed(privilege, object)
 WHERE NOT has_table_privilege(format('{schema}.%I', object)::regclass, privilege)
