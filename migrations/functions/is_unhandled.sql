-- Whether workers are alive and none of them handles events of a type in a topic. False if no worker is alive.
--
-- A handler without a topic is declared for the topic `default` and handles the events of every topic, except batch topics
-- for which its worker has a batch handler. Workers of a release before topics declare types only.
-- called by: the daemon
-- roles: operator, viewer, worker
-- locks: nothing
CREATE OR REPLACE FUNCTION {schema}.is_unhandled(topic text, type text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT NOT coalesce(pg_catalog.bool_or(
        (pg_catalog.cardinality(w.served_topics) = 0 OR $1 = ANY (w.served_topics))
        AND CASE WHEN pg_catalog.cardinality(w.subscriptions) = 0 THEN $2 = ANY (w.events)
                 ELSE $1 || E'\n' || $2 = ANY (w.subscriptions)
                      OR (E'default\n' || $2 = ANY (w.subscriptions)
                          AND NOT (EXISTS (SELECT FROM {schema}.topics t WHERE t.name = $1 AND t.mode = 'batch')
                                   AND EXISTS (SELECT FROM pg_catalog.unnest(w.subscriptions) AS each
                                                WHERE pg_catalog.starts_with(each, $1 || E'\n')))) END), true)
      FROM {schema}.workers w WHERE w.state IN ('running', 'draining')
$$;
