"""The page beside the pipelines that this process runs: served while they run, and told what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from connectors.spec import Spec
from spark_jobs.page.live_view import Beside, Live
from spark_jobs.page.metrics import Metrics
from spark_jobs.page.opening import Opened, PageOptions, opened
from spark_jobs.page.pipeline_view import AskSinks
from twophase.version import installed_version


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
    with opened(specs, options, ask_sinks, lives=lives, metrics=metrics.exposed) as page, show(page):
        yield tuple(Beside(live, (live, figure), page.url) for live, figure in zip(lives, figures, strict=True))
