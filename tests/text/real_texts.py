"""Real text for filters, from this Python installation and from folders that may stand beside the checkout."""

from __future__ import annotations

import inspect
import json as json_module
import random

from marin.text.normalize import normalize
from tests.shared_data import shared


def real_texts(name: str) -> list[str]:
    if name == "stdlib":
        import argparse
        import asyncio.events
        import collections
        import email.message
        import pydoc_data.topics
        import typing

        modules = (argparse, asyncio.events, collections, email.message, typing, random, json_module)
        topics: dict[str, str] = pydoc_data.topics.topics
        return [normalize(text) for text in (*topics.values(), *map(inspect.getsource, modules))]
    import gzip

    with gzip.open(shared(f"{name}/{name}.jsonl.gz"), "rt") as lines:
        texts = [json_module.loads(line)["text"] for line in lines][::12]
    # Whole documents mostly pass; single sections bring each rule to its threshold.
    sections = [section for text in texts[:20] for section in text.split("\n\n\n")]
    return [normalize(text) for text in texts + sections if text.strip()]
