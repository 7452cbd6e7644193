"""Where pages of events come from: one module for each way, and the contract that they meet."""
