"""The demo's stage: the processes, the provider, the platform's bets, the judge."""
