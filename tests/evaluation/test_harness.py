import math
import os

import numpy as np
import pytest
from huggingface_hub import is_offline_mode
from lm_eval.api.instance import Instance

from marin.errors import GarbledDocument, NothingScored
from marin.evaluation.candidates import candidates
from marin.evaluation.formats import Format
from marin.evaluation.harness import ItemTask, ScoringModel, evaluate_items
from marin.evaluation.harness_model import HarnessModel
from marin.evaluation.items import Item
from marin.evaluation.scoring import Scoring
from tests.evaluation.models import Bytes, NGram, Rows, unigram
from tests.evaluation.problems import problems


def model(scorer) -> ScoringModel:
    return ScoringModel(Scoring(scorer, Bytes(), 384, 128))


def test_a_uniform_model_pays_the_same_for_every_byte():
    items = problems(6, seed=1)
    tasks = [ItemTask(form.value, items, form, choices=4) for form in Format]
    results = evaluate_items(model(unigram(np.zeros(257))), tasks)
    assert list(results) == ["lm_eval", "olmes"]
    for form in Format:
        metrics = results[form.value]["metrics"]
        assert metrics["bits_per_byte"] == pytest.approx(math.log2(257), rel=1e-6)
        assert metrics["gold_bits_per_byte"] == pytest.approx(math.log2(257), rel=1e-6)
        assert metrics["gold_bits_per_byte_stderr"] == pytest.approx(0, abs=1e-6)
        assert [item["id"] for item in results[form.value]["items"]] == [item.id for item in items]


def test_a_model_that_saw_the_solutions_picks_them_and_another_does_not():
    seen, unseen = problems(8, seed=2), problems(8, seed=3)
    trained = model(NGram(12).train([Format.OLMES.text(item) for item in seen], times=4))
    tasks = [ItemTask("seen", seen, Format.OLMES, 4), ItemTask("unseen", unseen, Format.OLMES, 4)]
    results = evaluate_items(trained, tasks)
    assert results["seen"]["metrics"]["acc"] == 1
    assert results["seen"]["metrics"]["choice_probability"] > 0.9 > results["unseen"]["metrics"]["choice_probability"]
    assert results["seen"]["metrics"]["bits_per_byte"] < results["unseen"]["metrics"]["bits_per_byte"] / 2
    # The model recorded the score of each request of the harness, token by token.
    gold = (Format.OLMES.prompt(seen[0]), Format.OLMES.gold(seen[0]))
    size = len(gold[1].encode())
    assert trained.scored[gold].total / size == pytest.approx(results["seen"]["items"][0]["gold_bits_per_byte"])


def test_the_hub_can_be_asked_again_afterwards(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    meanwhile = []

    def scorer(tokens):
        meanwhile.append((is_offline_mode(), os.environ["HF_HUB_OFFLINE"]))
        return unigram(np.zeros(257)).scorer(tokens)

    evaluate_items(model(Rows(scorer)), [ItemTask("few", problems(2, seed=1), Format.OLMES, 1)])
    assert set(meanwhile) == {(True, "1")}
    assert not is_offline_mode()
    assert "HF_HUB_OFFLINE" not in os.environ


def test_a_task_without_items_scored_nothing():
    with pytest.raises(NothingScored, match="empty"):
        evaluate_items(model(unigram(np.zeros(257))), [ItemTask("empty", [], Format.OLMES, 1)])


def request(kind, *arguments) -> Instance:
    return Instance(kind, doc={}, arguments=arguments, idx=0, metadata=("task", 0, 1))


def test_greedy_answers_follow_the_likeliest_token_until_a_stop():
    trained = model(NGram(8).train(["Q: 2+2? A: it is 4.\nQ: next"] * 3))
    asked = [
        request("generate_until", "Q: 2+2? A:", {"until": ["\n"]}),
        request("generate_until", "Q: 2+2? A:", {"until": [], "max_gen_toks": 3}),
    ]
    assert trained.generate_until(asked) == [" it is 4.", " it"]


def test_an_empty_prompt_begins_with_the_token_that_stands_before_texts():
    says_a = HarnessModel(unigram(9.0 * (np.arange(257) == ord("a"))), Bytes(), separated=False)
    assert says_a.generate_until([request("generate_until", "", {"until": [], "max_gen_toks": 3})]) == ["aaa"]
    [(likelihood, greedy)] = says_a.loglikelihood([request("loglikelihood", "", "a")])
    assert greedy
    assert -1 < likelihood < 0


def test_greedy_is_claimed_where_every_token_is_the_likeliest():
    trained = model(NGram(8).train(["Q: 2+2? A: it is 4.\n"] * 20))
    (sure, unsure) = trained.loglikelihood(
        [request("loglikelihood", "Q: 2+2? A:", " it is 4."), request("loglikelihood", "Q: 2+2? A:", " 5")]
    )
    assert sure[1]
    assert not unsure[1]
    assert unsure[0] < sure[0] < 0
    (rolling,) = trained.loglikelihood_rolling([request("loglikelihood_rolling", "Q: 2+2? A: it is 4.\n")])
    assert rolling < sure[0]


def test_candidates_differ_look_alike_and_never_change():
    item = Item("x", "q", "7*7 = <<7*7=49>>49\n#### 49", "49")
    made = candidates(item, 4)
    assert made[0] == item
    assert len({one.final for one in made}) == 4
    assert all(len(one.final) == 2 and one.final in one.answer and "49" not in one.answer for one in made[1:])
    assert candidates(item, 4) == made
    assert [one.final for one in candidates(Item("y", "q", "#### 1,250.50", "1,250.50"), 2)][1].endswith(".50")
    with pytest.raises(GarbledDocument, match=r"x-1.*nine"):
        candidates(Item("x-1", "q", "#### nine", "nine"), 4)
