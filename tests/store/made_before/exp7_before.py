"""Is what was made before the modules moved still there?"""

from lib.operators import CountWords, WriteText

from marin import Experiment, Scale, executor_main


def build(scale: Scale) -> Experiment:
    text = WriteText(text="The  Store of   before", label="text")
    return Experiment(issue=7, question=__doc__, results={"words": CountWords(documents=text, label="words")})


if __name__ == "__main__":
    executor_main(build)
