"""Exp 7: which items of our test suite does our crawl hold?"""

from marin import Experiment, Scale, executor_main
from operators.decontaminate import Decontaminate
from operators.download import FsspecFiles
from operators.read_suite import ReadSuite
from operators.text_files import TextFiles


def build(scale: Scale) -> Experiment:
    suite = ReadSuite(files=FsspecFiles(urls=("/data/suite/mmlu.jsonl",), label="mmlu"), label="mmlu")
    crawl = TextFiles(path="/data/text", label="crawl")
    clean = Decontaminate(documents=crawl, against=(suite,), label="crawl")
    return Experiment(issue=7, repository="", question=__doc__, results={"clean": clean})


if __name__ == "__main__":
    executor_main(build)
