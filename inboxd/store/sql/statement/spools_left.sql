-- The receivers' spools, by their last report: receipts that were answered, and are not in the database yet.
-- parameters: none
-- returns: receiver, host, spooled (text[] sources), broken (its spool accepts nothing any more), trouble (why; null too
--          if the role may not read it), is_gone (the receiver has ended, or is dead, so the spool is not drained)
-- locks: nothing
SELECT r.name AS receiver, r.host, r.spooled, r.broken, {content text: r.trouble} AS trouble,
       r.state NOT IN ('running', 'draining') OR r.beat_at < now() - interval '10 minutes' AS is_gone
  FROM {schema}.receivers r
 WHERE r.spooled <> '{}'
   AND NOT EXISTS (SELECT FROM {schema}.receivers n WHERE n.host = r.host AND n.started_at > r.started_at)
 ORDER BY 1, 2 LIMIT 100
