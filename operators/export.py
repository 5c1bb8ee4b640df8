"""Export: write a checkpoint as a folder that transformers, vLLM and others load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marin import Checkpoint, Context, ExecutorStep, HuggingFaceModel, Size, Tokenizer
from marin.errors import BadField
from marin.training.model import Architecture, Precision
from operators.evaluate import Weights
from operators.train import trained_by
from operators.train_tokenizer import TrainTokenizer


class Export(ExecutorStep[HuggingFaceModel], op="export", version=2, isolated=True):
    """A checkpoint in the format of Hugging Face, with the files of its tokenizer.

    Output: a folder called ``step{N}-tokens{T}B``, T in billions. precision: the type of the stored numbers; FLOAT32
    gives the same loss as the checkpoint.
    """

    checkpoint: ExecutorStep[Checkpoint]
    tokenizer: ExecutorStep[Tokenizer]
    weights: Weights = Weights.LAST
    precision: Precision = Precision.FLOAT32

    def check(self) -> None:
        training, tokenizer = trained_by(self.checkpoint), self.tokenizer
        if training is None:
            return
        if self.weights is Weights.AVERAGED and training.optimizer.ema is None:
            raise BadField(
                f"Export: {training.called()} keeps no moving average of its weights; take Weights.LAST, or train "
                "with Adam(ema=…)"
            )
        model = training.model
        if model.architecture is Architecture.LLAMA and model.hidden % model.heads:
            raise BadField(
                f"Export: {training.called()} has hidden {model.hidden} and {model.heads} heads; transformers refuses "
                "a Llama whose hidden is not a multiple of its heads: change one before it is trained, or take Qwen3"
            )
        if isinstance(tokenizer, TrainTokenizer) and tokenizer.vocabulary > training.vocabulary:
            raise BadField(
                f"Export: {tokenizer.name} may have {tokenizer.vocabulary:,} entries, {training.called()} has a "
                f"vocabulary of {training.vocabulary:,}; give the tokenizer that it was trained with"
            )

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        """Return the size of the weights alone."""
        training, each = trained_by(self.checkpoint), 4 if self.precision is Precision.FLOAT32 else 2
        return None if training is None else Size(bytes=each * training.model.parameters(training.vocabulary))

    def run(self, ctx: Context) -> HuggingFaceModel:
        from marin.training.checkpoint import read_facts
        from marin.training.export import export, export_name

        source = ctx[self.checkpoint].directory
        facts = read_facts(source)
        name = export_name(facts.step, facts.tokens)
        export(
            source,
            ctx[self.tokenizer].directory,
            (ctx.out / name).path,
            averaged=self.weights is Weights.AVERAGED,
            precision=self.precision,
        )
        return HuggingFaceModel(
            folder=name,
            step=facts.step,
            tokens=facts.tokens,
            parameters=facts.parameters,
            architecture=facts.model.architecture.value,
        )
