"""Exp 13: which of two published models is better at our questions and our text?

Question: how many bits do our right answers, and our documents, cost each model?
Arms: Qwen3 0.6B, and a model in a folder.
Decision: the interval of the difference, over questions and documents.
"""

from marin import Experiment, Scale, executor_main
from operators.compare import Compare
from operators.download import FsspecFiles, ReadItems
from operators.evaluate import Evaluate
from operators.pretrained_model import FolderModel, PretrainedModel
from operators.text_files import TextFiles

MODELS = {
    "qwen": PretrainedModel(
        repo="Qwen/Qwen3-0.6B-Base", revision="da87bfb608c14b7cf20ba1ce41287e8de496c0cd", label="qwen"
    ),
    "mine": FolderModel(path="/data/my_model", label="mine"),
}


def build(scale: Scale) -> Experiment:
    text = TextFiles(path="/data/text", label="own")
    questions = ReadItems(files=FsspecFiles(urls=("/data/questions.jsonl",), label="questions"), label="questions")
    scores = {
        name: Evaluate(
            label=name,
            checkpoint=model,
            tokenizer=model.tokenizer,
            domains={"own": text},
            tasks={"questions": questions},
            window={Scale.REHEARSAL: 64, Scale.FULL: 1_024}[scale],
            stride={Scale.REHEARSAL: 48, Scale.FULL: 768}[scale],
        )
        for name, model in MODELS.items()
    }
    compared = Compare(arms=scores, baseline="qwen", label="published")
    return Experiment(issue=13, repository="", question=__doc__, results={"compared": compared})


if __name__ == "__main__":
    executor_main(build)
