-- The running commands whose cancellation was requested have an index of their own.
-- oldest code: 4
--
-- Each heartbeat asks for them. From the index of running rows it read, under a held snapshot, a dead
-- entry of every command that its worker had claimed since: 0.7 s of the server after a million.

CREATE INDEX commands_cancelling ON {schema}.commands (worker_id) WHERE cancel_requested;
