"""FormatGaps: find the ways in which held-out text is formatted differently from the training's text."""

from __future__ import annotations

from collections.abc import Mapping

from marin import Context, Documents, ExecutorStep, Report
from marin.errors import BadField, StarvedSource

FEWEST = 20  # texts; smaller sets are refused


class FormatGaps(ExecutorStep[Report], op="format-gaps", version=1):
    """Every difference in format between the texts of a domain and the training's texts, in ``report.json``.

    A model that never read text ending in a space has a loss on such text that says nothing about its knowledge.
    training: documents by name. weights: the weight of each in the mixture. domains: held-out documents by name. texts:
    the number of training texts to read, divided by weight, and the most of each domain. marin.text.format_gap lists
    the properties that are compared. Raises StarvedSource for a domain, or a training, of too few texts.
    """

    training: Mapping[str, ExecutorStep[Documents]]
    weights: Mapping[str, float]
    domains: Mapping[str, ExecutorStep[Documents]]
    texts: int = 1000

    def check(self) -> None:
        if not self.training or not self.domains:
            raise BadField("FormatGaps: training or domains is empty; wanted documents of both")
        if self.weights.keys() != self.training.keys() or not all(weight > 0 for weight in self.weights.values()):
            raise BadField(
                f"FormatGaps.weights are given for {', '.join(sorted(self.weights))}, and training has "
                f"{', '.join(sorted(self.training))}; wanted a weight above 0 for each source of training"
            )
        if self.texts < FEWEST:
            raise BadField(f"FormatGaps.texts is {self.texts}; wanted at least {FEWEST}")

    def run(self, ctx: Context) -> Report:
        import json
        from dataclasses import asdict
        from itertools import islice

        from marin.data.documents import read_documents
        from marin.text.format_gap import form, format_gaps, gaps_in_words

        def read(step: ExecutorStep[Documents], most: int) -> list[str]:
            found = (document.text for document in read_documents(ctx[step].directory))
            return list(islice((text for text in found if text), most))

        total, training = sum(self.weights.values()), list[str]()
        for name, step in sorted(self.training.items()):
            training += read(step, max(1, round(self.texts * self.weights[name] / total)))
        written = form(training)
        report, headline = dict[str, object](), list[str]()
        for name, step in sorted(self.domains.items()):
            texts = read(step, self.texts)
            if min(len(texts), len(training)) < FEWEST:
                raise StarvedSource(
                    f"{self.name}: found {len(texts)} texts of {name} and {len(training)} of the training; wanted at "
                    f"least {FEWEST} of each"
                )
            found = format_gaps(written, form(texts))
            report[name] = {"texts": len(texts), "gaps": [asdict(gap) for gap in found]}
            headline.append(f"{name}: {gaps_in_words(found) or "written as the training's text"}")
        content = json.dumps({"training": len(training), "domains": report}, indent=1, sort_keys=True)
        ctx.out.write_text("report.json", content + "\n")
        return Report(headline=headline)
