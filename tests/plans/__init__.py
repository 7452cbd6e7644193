"""Held plans: what each statement of the daemon, operators and producers reads, whatever the statistics say."""
