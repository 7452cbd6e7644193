"""What events and commands share: the processor's loop, wake-ups, lease, execution of handlers.

- The loop: `processor`; its sleep: `wakeup`, `listener`.
- A handler's run: `execution`, in a thread by `threads`, in a process by `handler_process`. What
  its end means: `judge`, `outcomes`; whose failure it is: `losses` (outages), `versions` (payloads
  too new for this worker). What is logged of it: `row_log`. What it counts for: `batch_folder`.
- For plugins: `resources` (what their lifespans open), `hooks` (whom they want to be told).
- Targets: `breakers` (which are down), `breaker_upkeep` (how other workers know), `target_calls`
  (what breakers are told of a run), `endpoints` (who gets webhooks, and how that goes).
- The worker: `lease` (its heartbeat), `controls` (what is left alone), `queues` (their
  settings by now), `exclusive_run` (a suspect
  runs with nothing beside it), `fleet` (the other workers), `parts` (what all of these are given).

Known limit: which rows come, and what a page of them is, is for `inboxd.events` and
`inboxd.commands`; the engine knows neither.
"""
