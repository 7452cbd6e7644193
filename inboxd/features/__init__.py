"""The features of the product, each in a folder of its own: to leave one out, delete its lines.

The core knows them by `FEATURES` only (ADR 44).
"""

from inboxd.features import (
    doctor,
    erasure,
    producing,
    rehearsal,
    uninstall,
)
from inboxd.features.feature import CliCommand, Feature

FEATURES: tuple[Feature, ...] = (
    uninstall.FEATURE,
    doctor.FEATURE,
    rehearsal.FEATURE,
    producing.FEATURE,
    erasure.FEATURE,
)

__all__ = ["FEATURES", "CliCommand", "Feature"]
