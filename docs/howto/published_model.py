"""Exp 11: does a published model get better at our text when it trains on it?

Question: how many bits per byte of held-out text does Qwen3 0.6B gain from a short training on our documents?
Arms: the published model, and the model after the training.
Decision: the bits per byte of the held-out documents.
"""

from marin import BatchSchedule, Experiment, Scale, Stages, executor_main, mixture
from marin.training.model import Architecture, ModelShape, Precision
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from operators.compare import Compare
from operators.evaluate import Evaluate
from operators.export import Export
from operators.pretrained_model import PretrainedModel
from operators.split import Part, Split
from operators.start import Fork, OptimizerState
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train

# printed by: marin new model hf:Qwen/Qwen3-0.6B-Base@da87bfb608c14b7cf20ba1ce41287e8de496c0cd
MODEL = PretrainedModel(
    repo="Qwen/Qwen3-0.6B-Base",
    revision="da87bfb608c14b7cf20ba1ce41287e8de496c0cd",
    shape=ModelShape(
        architecture=Architecture.QWEN3,
        hidden=1_024,
        intermediate=3_072,
        layers=28,
        heads=16,
        kv_heads=8,
        seq_len=32_768,
        head_width=128,
        rope_theta=1000000.0,
        norm_eps=1e-06,
        tied_embeddings=True,
    ),
    vocabulary=151_936,
)
STEPS, SEQ_LEN = {Scale.REHEARSAL: 8, Scale.FULL: 500}, {Scale.REHEARSAL: 64, Scale.FULL: 2_048}


def build(scale: Scale) -> Experiment:
    text = TextFiles(path="/data/text", label="own")
    training, held_out = (
        Split(documents=text, part=part, holdout=0.1, piece=20_000, label=part.value)
        for part in (Part.TRAIN, Part.HELD_OUT)
    )
    tokens = Tokenize(documents=training, tokenizer=MODEL.tokenizer, label="own")
    steps, length = STEPS[scale], SEQ_LEN[scale]
    continued = Train(
        label="continued",
        model=MODEL.shape,
        vocabulary=MODEL.vocabulary,
        start=Fork(MODEL, optimizer_state=OptimizerState.FRESH),
        optimizer=Adam(peak_lr=2e-5),
        schedule=Schedule(warmup=steps // 8, decay=Decay(steps // 8, steps)),
        precision={Scale.REHEARSAL: Precision.FLOAT32, Scale.FULL: Precision.BFLOAT16}[scale],
        data=Stages({0: mixture({tokens: 1.0})}),
        batch=BatchSchedule({0: 8}),
        seq_len=length,
        seed=0,
        block=8,
        end_step=steps,
    )
    scores = {
        name: Evaluate(
            label=name,
            checkpoint=model,
            tokenizer=MODEL.tokenizer,
            domains={"own": held_out},
            window=length,
            stride=length * 3 // 4,
        )
        for name, model in {"published": MODEL, "continued": continued}.items()
    }
    compared = Compare(arms=scores, baseline="published", label="continued")
    exported = Export(checkpoint=continued, tokenizer=MODEL.tokenizer, label="continued")
    return Experiment(issue=11, repository="", question=__doc__, results={"compared": compared, "exported": exported})


if __name__ == "__main__":
    executor_main(build)
