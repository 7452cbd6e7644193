"""Print the pages that statements read, by state of statistics: python -m tests.plans 10000."""

import sys

import anyio

from tests.plans.statistics import table, touched
from tests.support import create_migrated, temporary_server


def main() -> None:
    """Measure on a temporary server, and print the table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with temporary_server() as server:
        template = create_migrated(server)
        sys.stdout.write(table(anyio.run(touched, server, template, rows)) + "\n")


if __name__ == "__main__":
    main()
