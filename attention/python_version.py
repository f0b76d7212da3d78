"""Tells a Python that is too old so at once. Any Python, however old, can parse this file."""

import sys

MINIMUM = (3, 11)


def check(version=sys.version_info):
    """Exits with status 2 and one line on stderr if `version` is older than `MINIMUM`."""
    if tuple(version[:2]) < MINIMUM:
        sys.stderr.write(
            "error: Attention Lab needs Python {}.{} or newer, but {} is Python {}.{}\n".format(
                MINIMUM[0], MINIMUM[1], sys.executable or "this", version[0], version[1]
            )
        )
        raise SystemExit(2)


check()
