"""The carrier and a shop, as they would be elsewhere."""
