"""The spool: receipts that wait on this host's disk while the database cannot be reached."""
