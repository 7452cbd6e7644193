"""Sources of pages of events: one module for each, and the contract that they meet."""
