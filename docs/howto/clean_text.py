"""Exp 4: how much of our crawl do the published filters keep, and how much do ours?"""

from collections.abc import Sequence
from typing import Any

from marin import Experiment, Scale, executor_main, value
from marin.text.language import WrittenIn
from marin.text.presets import PROSE
from marin.text.published import FINEWEB_RECIPE, GopherQuality, Published
from marin.text.quality import Characters, Quality, View
from operators.datatrove import Datatrove
from operators.filter import Filter
from operators.text_files import TextFiles


@value("exp4/few_links")
class FewLinks:
    """Drop documents with more than ``most`` addresses a line."""

    most: float = 0.5

    def __call__(self, view: View) -> str | None:
        return "links" if view.text.count("://") > self.most * len(view.lines) else None


@value("exp4/blocks")
class Blocks:
    """FineWeb's filters in order, except filters that download; then masks for mail and network addresses."""

    def __call__(self) -> Sequence[Any]:
        from datatrove.pipeline import filters
        from datatrove.pipeline.formatters import PIIFormatter

        return [
            filters.GopherRepetitionFilter(),
            filters.GopherQualityFilter(),
            filters.C4QualityFilter(filter_no_terminal_punct=False),
            filters.FineWebQualityFilter(),
            PIIFormatter(),
        ]


def build(scale: Scale) -> Experiment:
    # sets aside and lists up to a hundred unusable records and damaged files
    crawl = TextFiles(path="/data/text", max_bad=100, label="crawl")
    own = Quality(rules=(Characters(200, 1_000_000), WrittenIn(("en",)), FewLinks()))
    rules = {"fineweb": FINEWEB_RECIPE, "gopher": Published((GopherQuality(min_words=5),)), "prose": PROSE, "own": own}
    kept = {name: Filter(documents=crawl, quality=each, max_removed=1.0, label=name) for name, each in rules.items()}
    blocks = Datatrove(documents=crawl, chain=Blocks(), max_removed=1.0, label="blocks")
    return Experiment(issue=4, repository="", question=__doc__, results={**kept, "blocks": blocks})


if __name__ == "__main__":
    executor_main(build)
