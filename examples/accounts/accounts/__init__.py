"""Users register while the accounts service is down: the example of calling targets."""
