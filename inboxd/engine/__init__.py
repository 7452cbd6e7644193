"""Shared by events and commands: the processor's loop, wake-ups, lease, execution of handlers.

- The loop: `processor`; its sleep: `wakeup`, `listener`.
- A handler's run: `execution`, in a thread by `threads`, in a process by `handler_process`. Its
  outcome: `judge`, `outcomes`; failures that the row did not cause: `forgiveness` (outages),
  `versions` (payloads too new for this worker). Its log lines: `row_log`. Its batch:
  `batch_folder`.
- For plugins: `resources` (opened by their lifespans), `hooks` (called at starts, ends, failures).
- Targets: `breakers` (state of each target), `breaker_upkeep` (shares states with other workers),
  `target_calls` (reports runs to breakers), `endpoints` (of webhooks, and their failures).
- The worker: `lease` (its heartbeat), `controls` (which lanes it leaves alone), `queues` (their
  current settings), `exclusive_run` (a suspect runs alone), `fleet` (the other workers), `parts`
  (the objects that all of these share).

Known limit: the engine knows neither events nor commands; `inboxd.events` and `inboxd.commands`
decide which rows are claimed, and run a page of them.
"""
