"""Exp 4: what does a dataset on the hub hold?"""

from marin import Experiment, Scale, executor_main
from operators.download import HuggingFace, Keep, ReadDocuments

files = HuggingFace(
    repo="HuggingFaceTB/finemath",
    revision="e92b25a616738fe95dc186b64dfb19f9c8525594",
    patterns=("finemath-3plus/*.parquet",),
    label="finemath",
)
text = ReadDocuments(files=files, text_field="text", label="finemath")

# the text is in several fields
answers = ReadDocuments(files=files, template="Question: {question}\nAnswer: {answer}", label="answers")

# only some of the records
python = ReadDocuments(
    files=files, text_field="content", keep=(Keep(field="language", values=("Python",)),), label="py"
)


def build(scale: Scale) -> Experiment:
    results = {"text": text, "answers": answers, "python": python}
    return Experiment(issue=4, repository="", question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
