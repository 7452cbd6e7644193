"""Where commands come from besides plain lanes: queues with limits, ordering keys, suspects."""
