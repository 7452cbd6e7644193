"""Reports failed tests of the examples to the gate, as tests/conftest.py does for tests/.

A copy of an example works without this file.
"""

from tests.support.failures import pytest_runtest_makereport

# pytest finds a hook by its name in this file.
__all__ = ["pytest_runtest_makereport"]
