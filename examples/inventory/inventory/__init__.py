"""A warehouse that receives every event twice: the example of deduplication."""
