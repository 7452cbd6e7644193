"""The spool: receipts that wait on this host's disk while the database is unreachable."""
