"""Stand-ins for the carrier and for a shop."""
