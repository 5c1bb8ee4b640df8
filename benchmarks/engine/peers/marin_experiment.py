"""Ten layers of trivial steps, as an experiment. The benchmark copies this file with its own STEPS and FOLDER."""

from dag import SEED, SEED_VALUE, layers, make

from marin import Artifact, Context, ExecutorStep, Experiment, Scale, execution, executor_main

STEPS = 100
FOLDER = "."


class Value(Artifact, kind="bench-value"):
    """One small file."""


class Sum(ExecutorStep[Value], op="sum", version=1):
    key: str
    reads: tuple[str, ...]
    inputs: tuple[ExecutorStep[Value], ...] = ()
    folder: str = execution(default=".")

    def run(self, ctx: Context) -> Value:
        read = zip(self.inputs, self.reads, strict=False)  # the seed is read by its name, and is no input
        values = tuple(ctx[step].directory.read_text(name) for step, name in read) or (SEED_VALUE,)
        ctx.out.write_text(self.key, make(self.folder, self.reads, values))
        return Value()


def build(scale: Scale) -> Experiment:
    built: dict[str, ExecutorStep[Value]] = {}
    last: list[str] = []
    for layer in layers(STEPS):
        for node in layer:
            inputs = tuple(built[read] for read in node.reads if read != SEED)
            built[node.name] = Sum(key=node.name, reads=node.reads, inputs=inputs, folder=FOLDER)
        last = [node.name for node in layer]
    return Experiment(issue=3, question="How fast?", results={name: built[name] for name in last})


if __name__ == "__main__":
    executor_main(build)
