"""Events: pages that are claimed, run and settled in one transaction (`page`)."""
