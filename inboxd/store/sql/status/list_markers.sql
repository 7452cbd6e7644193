-- The markers of charts in a span, newest first: acts of operators; breakers that opened and closed; the first worker of a
-- release that joined, while none of that release was running, and after a worker of another release; the last worker of a
-- release that left.
-- parameters: $1 timestamptz since, $2 timestamptz until (left out), $3 integer how many entries of the audit, and
--             workers, are looked at, $4 integer of each kind at most
-- returns: at, kind (act, breaker, release), entry (its line of the audit), what (the action; open, closed; joined,
--          left), subject (the target; a breaker; a release), who (the operator; the host), reason, rows
-- locks: nothing
WITH began AS MATERIALIZED (
    SELECT w.*, lag(w.runs) OVER (ORDER BY w.started_at, w.id) AS before
      FROM (SELECT id, started_at, ended_at, host, concat_ws(', ', release, 'inboxd ' || version) AS runs
              FROM {schema}.workers WHERE started_at < $2::timestamptz ORDER BY started_at DESC LIMIT $3::integer) w
)
SELECT *
  FROM (SELECT a.at, 'act' AS kind, a.id AS entry, a.action AS what, a.target AS subject, a.actor AS who, a.reason,
               a.count AS rows
          FROM (SELECT * FROM {schema}.audit
                 WHERE at >= $1::timestamptz AND at < $2::timestamptz ORDER BY at DESC LIMIT $3::integer) a
         WHERE a.action <> 'view' ORDER BY a.at DESC LIMIT $4::integer) acts
UNION ALL
SELECT *
  FROM (SELECT b.at, 'breaker', NULL::bigint, b.state, b.name, NULL, NULL, NULL::bigint
          FROM {schema}.breaker_changes b
         WHERE b.at >= $1::timestamptz AND b.at < $2::timestamptz ORDER BY b.at DESC LIMIT $4::integer) breakers
UNION ALL
SELECT *
  FROM (SELECT b.started_at, 'release', NULL::bigint, 'joined', b.runs, b.host, NULL, NULL::bigint
          FROM began b WHERE b.started_at >= $1::timestamptz AND b.runs IS DISTINCT FROM b.before
           AND NOT EXISTS (SELECT FROM began o WHERE o.runs = b.runs AND o.started_at < b.started_at
                              AND (o.ended_at IS NULL OR o.ended_at >= b.started_at))
         ORDER BY b.started_at DESC LIMIT $4::integer) joined
UNION ALL
SELECT *
  FROM (SELECT max(b.ended_at), 'release', NULL::bigint, 'left', b.runs, NULL, NULL, NULL::bigint
          FROM began b GROUP BY b.runs
        HAVING bool_and(b.ended_at IS NOT NULL) AND max(b.ended_at) >= $1::timestamptz AND max(b.ended_at) < $2::timestamptz
         ORDER BY 1 DESC LIMIT $4::integer) gone
 ORDER BY at DESC
