"""Sources of pages of events: one module each, and their common contract."""
