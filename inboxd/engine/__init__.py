"""Shared by events and commands: the processor's loop, wake-ups, lease, execution of handlers.

The loop: `processor`; its sleep: `wakeup`, `listener`. A handler's run: `execution`, `threads`,
`handler_process`; its outcome: `judge`, `outcomes`, `forgiveness` (outages), `versions` (payloads
too new for this worker), `row_log`, `batch_folder`. For plugins: `resources`, `hooks`. Targets:
`breakers`, `breaker_upkeep`, `target_calls`, `endpoints`. The worker: `lease`, `controls`,
`queues`, `exclusive_run` (a suspect runs alone), `fleet` (the other workers), `parts` (shared by
all of these).

It knows neither events nor commands; `inboxd.events` and `inboxd.commands` claim and run rows.
"""
