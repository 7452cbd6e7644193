"""The gate learns of a failed test here what it learns of those in tests/.

A copy of an example has no such file: its tests need nothing of this repository's.
"""

from tests.support.failures import pytest_runtest_makereport

# pytest finds a hook by its name in this file.
__all__ = ["pytest_runtest_makereport"]
