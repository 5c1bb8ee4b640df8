"""FormatGaps: how held-out text is written otherwise than the text that a model is trained on."""

from __future__ import annotations

from collections.abc import Mapping

from marin import Context, Documents, ExecutorStep, Report
from marin.errors import BadField, StarvedSource

FEWEST = 20  # texts of a set of which something can be said


class FormatGaps(ExecutorStep[Report], op="format-gaps", version=1):
    """Every way in which the texts of a domain are written otherwise than the training's, in ``report.json``.

    A loss on text that ends in a space, of a model that never read such text, says nothing of what the model knows.
    training: documents by name; weights: of each, as in the mixture. domains: held-out documents by name. texts: how
    many of the training's are looked at, by weight, and of each domain at most. See marin.text.format_gap for what is
    compared. Raises StarvedSource for a domain, or a training, of too few texts.
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
                f"FormatGaps: weights are of {', '.join(sorted(self.weights))}, training has "
                f"{', '.join(sorted(self.training))}; wanted one above 0 for each"
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
                    f"{self.name}: {len(texts)} texts of {name}, {len(training)} of the training; wanted at least "
                    f"{FEWEST} of each"
                )
            found = format_gaps(written, form(texts))
            report[name] = {"texts": len(texts), "gaps": [asdict(gap) for gap in found]}
            headline.append(f"{name}: {gaps_in_words(found) or "written as the training's text"}")
        content = json.dumps({"training": len(training), "domains": report}, indent=1, sort_keys=True)
        ctx.out.write_text("report.json", content + "\n")
        return Report(headline=headline)
