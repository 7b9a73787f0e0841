"""`python -m docsite`: write the pages of the site to .docs/pages. scripts/docs builds the site from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from docsite.pages import PAGES, LinkError, collect
from docsite.reference import cli, keys, python, rest

GENERATED: Final[dict[str, Callable[[], str]]] = {
    "reference/keys.md": keys.page,
    "reference/cli.md": cli.page,
    "reference/rest_requests.md": rest.page,
    "reference/python.md": python.page,
}
"""Generators of the reference, by the place of the page. The page of the keys extends one of docs/."""


def main() -> int:
    """Return 1 if a page has a link to a file that does not exist."""
    try:
        changed = collect(GENERATED)
    except LinkError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    print(f"docs: {len(changed)} files changed in {PAGES}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
