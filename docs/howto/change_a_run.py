"""Exp 5: does a run continue better if it skips bad steps?"""

from dataclasses import replace

from infra.hardware import tpu
from marin import BatchSchedule, Experiment, Resources, Scale, Stages, executor_main, mixture
from marin.training.model import Llama
from marin.training.optimizer import Adam, ClipUpdateNorm, SkipBadSteps
from marin.training.schedule import Schedule
from operators.phases import Phase, PhasedRun, phased
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Fork, Train
from operators.train_tokenizer import TrainTokenizer

MACHINES = {Scale.REHEARSAL: Resources(), Scale.FULL: tpu("v5p-1024", slices=2)}
HIDDEN = {Scale.REHEARSAL: 32, Scale.FULL: 1024}  # each chip of a slice holds an equal part
TWICE = {Scale.REHEARSAL: Resources(), Scale.FULL: tpu("v5p-1024", slices=4)}


def calmer(run: Train, at: int, machines: Resources) -> Train:
    """Continue the run from step ``at`` on other machines, and skip bad steps."""
    return replace(
        run,
        label=f"{run.label}-calmer",
        first_step=at,
        start=Fork(run.at(at)),
        optimizer=replace(run.optimizer, skip_bad_steps=SkipBadSteps(), max_grad_norm=0.2),
        resources=machines,
    )


def in_phases(run: Train) -> PhasedRun:
    """Return the run with an update clip in its second and last quarter."""
    quarter = run.end_step // 4
    guarded = replace(run.optimizer, clip_update_norm=ClipUpdateNorm())
    unguarded = replace(run.optimizer, clip_update_norm=None)
    return phased(
        run,
        [
            Phase(until=quarter, optimizer=unguarded),
            Phase(until=2 * quarter, optimizer=guarded),
            Phase(until=3 * quarter, optimizer=unguarded, resources=tpu("v4-2048")),
            Phase(until=run.end_step, optimizer=guarded, clip_history=2 * quarter),
        ],
    )


def build(scale: Scale) -> Experiment:
    text = TextFiles(path="/data/text", label="own")
    tokenizer = TrainTokenizer(documents=(text,), vocabulary=512, label="own")
    run = Train(
        label="run",
        model=Llama(hidden=HIDDEN[scale], intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: mixture({Tokenize(documents=text, tokenizer=tokenizer, label="own"): 1.0})}),
        batch=BatchSchedule({0: {Scale.REHEARSAL: 4, Scale.FULL: 4096}[scale]}),
        seq_len=32,
        seed=0,
        block=16,
        end_step={Scale.REHEARSAL: 8, Scale.FULL: 10_000}[scale],
        max_epochs=1_000_000,  # the text is only a few words long
        resources=MACHINES[scale],
    )
    results = {"run": run, "calmer": calmer(run, run.end_step // 2, TWICE[scale])}
    if scale is Scale.FULL:
        results["phases"] = in_phases(replace(run, label="phases")).last
    return Experiment(issue=5, repository="", question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
