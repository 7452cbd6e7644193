"""Commands: leased in pages, run concurrently, settled one by one (`processing`, `runners`)."""
