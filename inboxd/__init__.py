"""A standalone async worker daemon on PostgreSQL."""
