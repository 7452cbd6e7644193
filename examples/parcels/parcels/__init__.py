"""Parcels for many shops, booked with a carrier: the example of targets and webhooks out."""
