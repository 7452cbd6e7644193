"""Parcels that a carrier takes, for many shops."""
