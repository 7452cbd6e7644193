"""A betting platform that settles bets by the results that it receives: the example of webhooks."""
