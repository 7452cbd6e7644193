"""A betting platform that settles bets by the results it is sent: the example of webhooks."""
