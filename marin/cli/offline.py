"""Refuse a run whose steps need the Hugging Face hub while the environment forbids it, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from marin.errors import InputError
from marin.plan.decision import Action
from marin.plan.plan import Plan
from marin.store.numbers import listed

VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # variables of the hub's client
ON = ("1", "on", "yes", "true")
NAMED = 3


@runtime_checkable
class AsksHub(Protocol):
    """A step that cannot run without the hub."""

    def hub_repository(self) -> str: ...


def must_not_need_hub(plan: Plan, environment: Mapping[str, str]) -> None:
    """Raise InputError if the environment keeps the hub's client offline and a step that would run needs the hub."""
    offline = next((name for name in VARIABLES if environment.get(name, "").lower() in ON), None)
    asking = [
        f"{decision.step.name} ({step.hub_repository()})"
        for decision in plan.having(Action.RUN)
        if isinstance(step := decision.step, AsksHub)
    ]
    if offline is None or not asking:
        return
    raise InputError(
        f"{listed(asking, NAMED)}: not in the store {plan.store.prefix}, and {offline}={environment[offline]} forbids "
        f"access to the hub. Nothing was started: unset {offline}, download where a network is (--only), or leave "
        "these steps out"
    )
