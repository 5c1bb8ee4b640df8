"""The same values as files of ten outputs: a step for each layer, which makes all values of its layer.

The benchmark copies this file with its own STEPS and FOLDER.
"""

from dag import SEED, SEED_VALUE, layers, make

from marin import Artifact, Context, ExecutorStep, Experiment, Scale, execution, executor_main

STEPS = 100
FOLDER = "."


class Values(Artifact, kind="bench-values"):
    """A small file for each value."""


class Layer(ExecutorStep[Values], op="layer", version=1):
    nodes: tuple[tuple[str, tuple[str, ...]], ...]
    above: ExecutorStep[Values] | None = None
    folder: str = execution(default=".")

    def run(self, ctx: Context) -> Values:
        above = ctx[self.above].directory if self.above is not None else None
        for name, reads in self.nodes:
            values = tuple(SEED_VALUE if read == SEED or above is None else above.read_text(read) for read in reads)
            ctx.out.write_text(name, make(self.folder, reads, values))
        return Values()


def build(scale: Scale) -> Experiment:
    layer: Layer | None = None
    for nodes in layers(STEPS):
        layer = Layer(nodes=tuple((node.name, node.reads) for node in nodes), above=layer, folder=FOLDER)
    assert layer is not None
    return Experiment(issue=3, question="How fast?", results={"last": layer})


if __name__ == "__main__":
    executor_main(build)
