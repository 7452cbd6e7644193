-- Webhooks whose sender chose the message id are known by a row that does not move.
-- oldest code: 3
--
-- Code of before sends by the function that writes these rows; it removes none.

-- A delivery moves from commands to history. A sender whose snapshot is older than that finds it in neither, and would
-- write it again: an index finds it here, whatever a snapshot sees. A row goes when its delivery has been settled for a
-- day: history tells of it then, to all but a transaction that is older.
CREATE TABLE {schema}.sent_webhooks (
    command_id uuid PRIMARY KEY,  -- made of endpoint and message id: delivery_id
    looked_at  timestamptz NOT NULL DEFAULT statement_timestamp()  -- when it was found to be needed
);
CREATE INDEX sent_webhooks_looked_at ON {schema}.sent_webhooks (looked_at);

-- Of those that wait already nobody knows whether their id was chosen.
INSERT INTO {schema}.sent_webhooks (command_id) SELECT command_id FROM {schema}.commands WHERE type = 'webhook.deliver';

DO $do$
BEGIN
    IF to_regrole('{schema}_worker') IS NOT NULL THEN
        GRANT SELECT, UPDATE, DELETE ON {schema}.sent_webhooks TO {schema}_worker;
    END IF;
END
$do$;
