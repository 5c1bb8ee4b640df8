"""Exp 6: does a model that learns a judge's opinion of some pages find the good pages among all?"""

from marin import Experiment, Scale, executor_main, value
from operators.label import Label
from operators.quality_model import Score, Select, TrainClassifier
from operators.sample import Sample
from operators.text_files import TextFiles


@value("exp6/explains")
class Explains:
    """The share of sentences that give a reason."""

    def __call__(self, text: str) -> float:
        sentences = text.split(".")
        return sum("because" in sentence for sentence in sentences) / len(sentences)


def build(scale: Scale) -> Experiment:
    crawl = TextFiles(path="/data/text", label="crawl")
    sample = Sample(documents=crawl, count=50_000)
    labels = Label(documents=sample, labeller=Explains())
    classifier = TrainClassifier(
        good=(Select(documents=sample, scores=labels, least=0.2, label="good"),),
        bad=(Select(documents=sample, scores=labels, below=0.2, label="bad"),),
    )
    scores = Score(documents=crawl, classifier=classifier)
    best = Select(documents=crawl, scores=scores, fraction=0.1, label="best")
    return Experiment(issue=6, repository="", question=__doc__, results={"best": best})


if __name__ == "__main__":
    executor_main(build)
