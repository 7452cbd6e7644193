"""The demo's stage: the provider, the platform's bets, the judge."""
