-- Declare which topics get the events of which types; sorted, so that two workers do not deadlock.
-- parameters: $1 text[] topics, $2 text[] types, one entry a subscription
-- returns: nothing
-- locks: the rows that change
INSERT INTO {schema}.subscriptions AS old (type, topic)
SELECT type, topic FROM unnest($1::text[], $2::text[]) AS t(topic, type) ORDER BY type, topic
ON CONFLICT (type, topic) DO UPDATE SET declared_at = now(), undeclared_at = NULL
 WHERE old.undeclared_at IS NOT NULL
