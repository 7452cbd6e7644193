-- Tables without a replica identity: if they are published, the server refuses each UPDATE and DELETE of their rows.
-- parameters: none
-- returns: name (quoted as in SQL), remedy (SQL), published (a publication includes their updates or deletes)
-- locks: nothing
SELECT quote_ident(c.relname) AS name,
       format('ALTER TABLE {schema}.%I REPLICA IDENTITY FULL;', c.relname) AS remedy,
       EXISTS (SELECT FROM pg_publication p
                WHERE (p.pubupdate OR p.pubdelete)
                  AND (p.puballtables
                       OR EXISTS (SELECT FROM pg_publication_namespace n
                                   WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace)
                       OR EXISTS (SELECT FROM pg_publication_rel r
                                   WHERE r.prpubid = p.oid
                                     AND r.prrelid IN (SELECT c.oid UNION ALL
                                                       SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid))))
           AS published
  FROM pg_class c
 WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r'
   AND CASE c.relreplident
            WHEN 'f' THEN false
            WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
            WHEN 'i' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident)
            ELSE true END
 ORDER BY c.relname
