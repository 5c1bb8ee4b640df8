"""A classifier that tells wanted text from other text: hashed words and word pairs into one linear layer.

The model is fastText's (Joulin et al. 2016) as DCLM uses it for filtering (Li et al. 2024, section 4.4), without the
hidden layer, which two classes do not need. scikit-learn trains it. fastText itself starts nine tenths of its vectors
from uninitialised memory even in one thread, so equal examples would not always give an equal model.
"""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from marin.errors import BadField, InputError
from marin.steps.value import value
from marin.store.files.directory import Directory

WEIGHTS, ABOUT = "weights.npy", "classifier.json"


@value("classifier/hashed_words")
class HashedWords:
    """A recipe for the classifier. words: most adjacent words in one feature. bits: for 2^bits features of 4 bytes.

    epochs: passes over the examples. penalty: on squared weights. Good and bad examples weigh the same in total.
    """

    words: int = 2
    bits: int = 20
    epochs: int = 10
    penalty: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.words <= 5 or not 8 <= self.bits <= 30 or self.epochs < 1 or self.penalty <= 0:
            raise BadField(f"{self}: wanted 1 to 5 words, 8 to 30 bits, at least one epoch and a penalty above 0")


def train(recipe: HashedWords, good: Iterable[str], bad: Iterable[str], out: Directory) -> tuple[int, int]:
    """Train and write the model. Returns the numbers of good and bad examples. Raises InputError if either is 0.

    Memory: 12 bytes per distinct feature of each example.
    """
    from scipy.sparse import vstack
    from sklearn.linear_model import SGDClassifier

    hashed = _hashing(recipe.words, recipe.bits)
    sides = [hashed.transform(texts) for texts in (good, bad)]
    counts = sides[0].shape[0], sides[1].shape[0]
    if not all(counts):
        raise InputError(f"there are {counts[0]} good and {counts[1]} bad examples; wanted some of both")
    epochs: dict[str, Any] = {"max_iter": recipe.epochs, "tol": None}  # never fewer
    model: Any = SGDClassifier(
        loss="log_loss", alpha=recipe.penalty, average=True, class_weight="balanced", random_state=recipe.seed, **epochs
    )
    model.fit(vstack(sides), np.repeat([1, 0], counts))
    with out.open(WEIGHTS, "wb") as file:
        np.lib.format.write_array(file, model.coef_[0].astype("<f4"), allow_pickle=False)
    about = {"words": recipe.words, "bits": recipe.bits, "bias": float(model.intercept_[0])}
    out.write_text(ABOUT, json.dumps(about, indent=1) + "\n")
    return counts


class Model:
    """A trained classifier in memory, 4 bytes per feature."""

    def __init__(self, directory: Directory) -> None:
        about = json.loads(directory.read_text(ABOUT))
        self._hashed, self._bias = _hashing(about["words"], about["bits"]), about["bias"]
        with directory.open(WEIGHTS) as file:
            self._weights = np.lib.format.read_array(file, allow_pickle=False)

    def scores(self, texts: Sequence[str]) -> list[float]:
        """Return the log odds that each text is good: 0 for even odds."""
        return (self._hashed.transform(texts) @ self._weights + self._bias).tolist() if texts else []


def separation(good: Sequence[float], bad: Sequence[float]) -> float:
    """Return the chance that a good text scores above a bad one, ties half (area under the ROC curve, .5 by chance)."""
    from scipy.stats import rankdata

    above = float(rankdata([*good, *bad])[: len(good)].sum()) - len(good) * (len(good) + 1) / 2
    return above / (len(good) * len(bad))


def _hashing(words: int, bits: int) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    options: dict[str, Any] = {"dtype": np.float32, "token_pattern": r"\w+|[^\w\s]"}
    return HashingVectorizer(ngram_range=(1, words), n_features=1 << bits, alternate_sign=False, **options)
