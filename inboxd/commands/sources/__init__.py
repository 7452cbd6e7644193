"""Sources of commands: `lanes`, `limited` (queues with limits, and ordering keys), `suspects`."""
