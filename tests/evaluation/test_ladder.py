"""Predictions of a ladder on losses of known laws: recovered exponents, coverage of intervals, and honest answers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from marin.evaluation.families import backtest, law, sizes, two_step
from marin.evaluation.families.ladder import Asked, Run, ladder_report
from marin.steps.resources import Accelerator

NOMINAL = 0.95
ENOUGH = 0.9 * NOMINAL
LOSS, TASK = "bpb/web", "gsm/olmes/bpb"
ACCURACY = "gsm/olmes/accuracy"
V4 = Accelerator(name="v4-2048", chips=1024, hosts=256, peak_flops=275e12)

type Law = Callable[[float], float]


def power(e: float = 0.6, a: float = 0.5, alpha: float = 0.12) -> Law:
    """Return a power law of the compute in units of 1e18 FLOPs."""
    return lambda flops: e + a * (flops / 1e18) ** -alpha


def compute(rungs: int = 7, decades: float = 2.0) -> list[float]:
    return np.logspace(18, 18 + decades, rungs).tolist()


def ran(
    of: Law,
    name: str = "recipe",
    flops: Sequence[float] = (),
    *,
    seeds: int = 2,
    noise: float = 0.002,
    spread: Sequence[float] = (1.0,),
    seed: int = 0,
) -> list[Run]:
    """Runs whose loss is this law, with noise; their accuracy follows the loss."""
    random, made = np.random.default_rng(seed), list[Run]()
    for each in flops or compute():
        for times in spread:
            parameters = math.sqrt(each / 6 / 20 / times)
            for number in range(seeds):
                loss = of(each) * (1 + noise * random.standard_normal())
                metrics = {LOSS: loss, TASK: loss, ACCURACY: 0.25 + 0.75 / (1 + math.exp(8 * (loss - 0.9)))}
                made.append(
                    Run(
                        recipe=name,
                        flops=each,
                        parameters=parameters,
                        tokens=20 * times * parameters,
                        seed=number,
                        metrics=metrics,
                        on_path=times == 1,
                    )
                )
    return made


def told(*recipes: Sequence[Run], target: float = 3e21, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    asked = Asked(primary=LOSS, target=target, target_sizes=(5e9, 1e11), accelerator=V4, **fields)
    return ladder_report([run for runs in recipes for run in runs], asked)


def covered(
    of: Law, *, rungs: int, seeds: int, by_rung: float, by_seed: float, beyond: float, times: int
) -> tuple[float, float]:
    """Return the shares of predictions at the target, and of backtests, whose interval holds a new run's loss."""
    random, flops = np.random.default_rng(1), compute(rungs)
    target, predicted, backtested = beyond * flops[-1], 0, 0

    def runs(at: float, count: int) -> list[float]:
        rung = of(at) * (1 + by_rung * random.standard_normal())
        return [rung * (1 + by_seed * random.standard_normal()) for _ in range(count)]

    for _ in range(times):
        losses = [runs(each, seeds) for each in flops]
        predicted += runs(target, 1)[0] in law.fit(flops, losses).predicted(target)
        found = backtest.of_loss(flops, losses)
        backtested += found is not None and found.holds
    return predicted / times, backtested / times


def test_the_law_of_compute_is_recovered() -> None:
    flops = compute()
    found = law.fit(flops, [[power()(each)] for each in flops])
    assert (found.e, found.alpha) == pytest.approx((0.6, 0.12), rel=1e-3)
    assert found.predicted(1e22).value == pytest.approx(power()(1e22), rel=1e-6)


def test_the_law_of_parameters_and_tokens_is_recovered() -> None:
    """The constants of Besiroglu et al. 2024, from nine budgets with three ratios each."""
    places = [
        (math.sqrt(each / 6 / ratio), math.sqrt(each * ratio / 6)) for each in compute(9) for ratio in (10, 20, 40)
    ]
    n, d = ([place[at] for place in places] for at in (0, 1))
    losses = [1.8169 + 482.01 / one**0.3478 + 2085.43 / other**0.3658 for one, other in places]
    found = sizes.fit(n, d, losses)
    assert (found.e, found.alpha, found.beta) == pytest.approx((1.8169, 0.3478, 0.3658), rel=1e-3)
    assert found.predicted(2e10, 4e11).value == pytest.approx(1.8169 + 482.01 / 2e10**0.3478 + 2085.43 / 4e11**0.3658)
    assert 1e21 / 6 / found.best_parameters(1e21) ** 2 == pytest.approx(21.6, rel=0.02)
    assert "spread" in sizes.unfit(n[::3], d[::3])


def test_intervals_hold_as_often_as_they_say() -> None:
    found = covered(power(), rungs=7, seeds=2, by_rung=0.002, by_seed=0.002, beyond=30, times=60)
    assert min(found) >= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("of", [power(), power(1.7, 1.9, 0.155), power(0.0, 2.5, 0.06), power(1.0, 2.0, 0.3)])
@pytest.mark.parametrize(("rungs", "seeds", "by_rung", "by_seed"), [(5, 1, 0.004, 0.0), (9, 3, 0.0, 0.004)])
def test_intervals_hold_for_other_laws_and_noise(
    of: Law, rungs: int, seeds: int, by_rung: float, by_seed: float
) -> None:
    found = covered(of, rungs=rungs, seeds=seeds, by_rung=by_rung, by_seed=by_seed, beyond=100, times=200)
    assert min(found) >= ENOUGH


@pytest.mark.slow
def test_intervals_of_a_difference_and_of_parameters_and_tokens_hold() -> None:
    random, flops, held, sized = np.random.default_rng(2), compute(), 0, 0
    one, other = power(), power(0.58, 0.53)

    def noisy(values: Sequence[float]) -> list[float]:
        return [value * (1 + 0.002 * random.standard_normal()) for value in values]

    for _ in range(100):
        laws = [law.fit(flops, [[each] for each in noisy([of(at) for at in flops])]) for of in (one, other)]
        held += other(3e21) - one(3e21) in law.difference(laws[0], laws[1], 3e21)
    n = [math.sqrt(each / 6 / ratio) for each in flops for ratio in (10, 20, 40)]
    d = [math.sqrt(each * ratio / 6) for each in flops for ratio in (10, 20, 40)]

    def truth(parameters: float, tokens: float) -> float:
        return 1.8169 + 482.01 / parameters**0.3478 + 2085.43 / tokens**0.3658

    for _ in range(60):
        losses = noisy([truth(*each) for each in zip(n, d, strict=True)])
        sized += truth(5e9, 1e11) * (1 + 0.002 * random.standard_normal()) in sizes.fit(n, d, losses).predicted(
            5e9, 1e11
        )
    assert held / 100 >= ENOUGH
    assert sized / 60 >= ENOUGH


def test_a_prediction_stands_with_its_backtest_and_its_curve() -> None:
    made, headline = told(ran(power()))
    found = made["recipes"]["recipe"]
    assert made["verdict"] == "PREDICTED"
    assert found["prediction"]["low"] < power()(3e21) < found["prediction"]["high"]
    assert found["backtest"]["holds"]
    assert headline[0].startswith("PREDICTED: web text 0.7825 (95 % interval 0.7665 to 0.7972) bits per byte at 3e21")
    assert headline[1].startswith("Backtest: from the smaller rungs, 1e20 FLOPs were predicted at")
    assert found["sizes"]["unfit"].startswith("tokens go with parameters")
    assert told(ran(power()))[0] == made, "the same runs give the same report"


def test_parameters_and_tokens_are_fitted_where_they_vary() -> None:
    found = told(ran(power(), spread=(0.5, 1.0, 2.0), seeds=1))[0]["recipes"]["recipe"]
    assert set(found["sizes"]) >= {"alpha", "beta", "prediction", "best_parameters"}
    assert len(found["rungs"]) == 7, "the law of compute goes along the rule's own ratio"


def test_less_than_a_decade_is_inconclusive_and_says_which_rung_would_help() -> None:
    _, headline = told(ran(power(), flops=compute(6, 0.8)))
    assert headline[0] == "INCONCLUSIVE: the rungs span a factor of 6.3 in FLOPs, less than a decade."
    assert headline[1].startswith("A rung of 1e19 FLOPs would help (2 runs; about 51 chip-hours of v4-2048).")


def test_a_backtest_that_misses_is_inconclusive() -> None:
    """A learning rate that is wrong on the largest rung, say."""
    runs = ran(power())
    bent = [run for run in runs if run.flops < 9e19] + ran(lambda flops: power()(flops) * 1.03, flops=(1e20,))
    made, headline = told(bent)
    assert made["verdict"] == "INCONCLUSIVE"
    assert headline[0] == "INCONCLUSIVE: the backtest misses its interval."
    assert "whether the curve bends" in headline[1]
    assert headline[-1].endswith("outside of the interval.")


def test_noise_that_hides_the_gain_and_too_few_rungs_are_inconclusive() -> None:
    assert "no gain is shown" in told(ran(power(0.95, 0.05), noise=0.03))[1][0]
    for few in (2, 3, 4):
        assert f"there are {few} rungs; a fit with a backtest needs 5" in told(ran(power(), flops=compute(few)))[1][0]


def test_two_recipes_are_compared_at_the_target_and_a_crossing_is_placed() -> None:
    steep, flat = power(0.5, 0.6, 0.13), power(0.62, 0.45, 0.16)
    made, headline = told(ran(steep, "steep", noise=5e-4), ran(flat, "flat", noise=5e-4, seed=1))
    truth = steep(3e21) - flat(3e21)
    assert -made["difference"]["high"] <= truth <= -made["difference"]["low"]
    [crossing] = made["crossings"]
    assert steep(crossing) == pytest.approx(flat(crossing), rel=0.01)
    assert headline[0].startswith("BETTER: steep is predicted to win. steep − flat at 3e21 FLOPs: −0.0")
    assert "both sides of the crossing are shown" in headline[1]
    _, same = told(ran(steep, "a"), ran(steep, "b", seed=1))
    assert same[0] == "INCONCLUSIVE: neither recipe is shown to be better at 3e21 FLOPs."
    assert "(4 runs; about" in same[1]


def test_an_accuracy_follows_from_the_loss_in_two_steps_with_a_backtest_of_both() -> None:
    tasks = {ACCURACY: (TASK, 0.25)}
    found = told(ran(power()), tasks=tasks)[0]["tasks"][ACCURACY]["recipe"]
    truth = 0.25 + 0.75 / (1 + math.exp(8 * (power()(3e21) - 0.9)))
    assert found["prediction"]["low"] < truth < found["prediction"]["high"]
    assert (found["backtest"]["holds"], found["doubt"]) == (True, "")
    guessed = [
        Run(**{**vars(run), "metrics": {**run.metrics, ACCURACY: 0.25 + 0.01 * (run.seed - 0.5)}})
        for run in ran(power())
    ]
    assert "not shown to do better than a guess" in told(guessed, tasks=tasks)[1][-1]
    with pytest.raises(ValueError, match="needs 4"):
        two_step.fit([1.0, 2.0], [0.5, 0.4], 0.25)
