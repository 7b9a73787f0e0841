"""Opens the page of some pipelines: beside the pipelines that this process runs, or in a process that only looks."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from connectors.spec import Spec
from spark_jobs.observe.recent_lines import RecentLines, collected
from spark_jobs.page.api import RenderMetrics, application
from spark_jobs.page.auth import Tokens
from spark_jobs.page.live_view import Beside, Live
from spark_jobs.page.metrics import Metrics
from spark_jobs.page.pipeline_view import AskSinks, watch
from spark_jobs.page.server import PageError, listen, serving
from twophase.version import installed_version

TOKEN_VARIABLE: Final = "EOS_UI_TOKEN"
READ_TOKEN_VARIABLE: Final = "EOS_UI_READ_TOKEN"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8080

_SHORTEST: Final = 16


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Where the page is served, and to whom."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT  # 0: any that is free
    token: str | None = field(default=None, repr=False)  # None: one is made
    read_token: str | None = field(default=None, repr=False)  # opens what is read, and steers nothing; None: none does
    metrics_per_split: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A page that is served."""

    url: str  # anybody may see this one
    made_token: str | None = field(default=None, repr=False)  # None: it came from outside

    @property
    def entry(self) -> str:
        """The URL for whoever may steer: it carries the token, unless that came from outside."""
        return f"{self.url}#token={self.made_token}" if self.made_token else self.url


@contextmanager
def opened(
    specs: Sequence[Spec],
    options: PageOptions,
    ask_sinks: AskSinks,
    *,
    lives: Sequence[Live | None] | None = None,
    metrics: RenderMetrics | None = None,
) -> Iterator[Opened]:
    """Serve the page for this block. `lives`: of those that this process runs. Raises PageError where it cannot be."""
    address = listen(options.host, options.port)
    made = secrets.token_urlsafe(24)
    tokens = Tokens(options.token or made, options.read_token)
    pipelines = watch(specs, ask_sinks, lives if lives is not None else [None] * len(specs))
    served = application(pipelines, tokens, is_loopback=address.is_loopback, metrics=metrics)
    with serving(served, address):
        yield Opened(address.url, None if options.token else made)


def given_token(file: Path | None, environment: Mapping[str, str], variable: str = TOKEN_VARIABLE) -> str | None:
    """The token that the user has chosen, by a file or this variable; None: no choice. Raises PageError."""
    if file is None and variable not in environment:
        return None
    try:
        token = (environment[variable] if file is None else file.read_text()).strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"the token of the page cannot be read from {file}: {error}"
        raise PageError(message, remedy="name a file with one line") from error
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        message = f"the token of the page has to be at least {_SHORTEST} letters, digits or signs without a blank"
        raise PageError(message, remedy="make one with `openssl rand -hex 24`")
    return token


@contextmanager
def served_beside(
    specs: Sequence[Spec],
    run_ids: Sequence[str],
    options: PageOptions,
    ask_sinks: AskSinks,
    show: Callable[[Opened], AbstractContextManager[None]],
) -> Iterator[tuple[Beside, ...]]:
    """Serve the page for this block, in which `show` says where it is. Yields one for each spec. Raises PageError."""
    metrics, lives = Metrics(per_split=options.metrics_per_split), [Live() for _ in specs]
    figures = [
        metrics.listener(spec, run_id=run_id, version=installed_version())
        for spec, run_id in zip(specs, run_ids, strict=True)
    ]
    logs: dict[str, list[RecentLines]] = {}
    for spec, live in zip(specs, lives, strict=True):
        logs.setdefault(spec.mask(spec.pipeline), []).append(live.log)
    served = opened(specs, options, ask_sinks, lives=lives, metrics=metrics.exposed)
    with collected(logs), served as page, show(page):
        yield tuple(Beside(live, (live, figure), page.url) for live, figure in zip(lives, figures, strict=True))
