-- The kinds of data that operators read and that this role may not read. Judged by a few columns: a role that may read only
-- some contents counts as one that may read none.
-- parameters: none
-- returns: kind (content, secret)
-- locks: nothing
SELECT kept.kind
  FROM (VALUES ('content', 'events', 'payload'), ('content', 'events', 'errors'), ('content', 'commands', 'payload'),
               ('content', 'commands', 'errors'), ('content', 'commands', 'result'), ('content', 'receipts', 'body'),
               ('content', 'endpoints', 'url'), ('secret', 'endpoints', 'secrets')) AS kept(kind, name, what)
  JOIN pg_namespace n ON n.nspname = '{schema}'
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = kept.name
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = kept.what
 WHERE NOT has_column_privilege(c.oid, a.attnum, 'SELECT')
 GROUP BY kept.kind
