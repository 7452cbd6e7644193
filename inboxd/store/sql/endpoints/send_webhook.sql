-- Send one webhook to one endpoint, by the producers' function.
-- parameters: $1 text type, $2 text payload (JSON), $3 text endpoint, $4 text tenant (null: none)
-- returns: id, command_id, message_id; no row if the endpoint is disabled
-- locks: the new row
SELECT id, command_id, new_message_id AS message_id
  FROM {schema}.send_webhook(type => $1, payload => $2::text::jsonb, endpoint => $3, tenant => $4)
