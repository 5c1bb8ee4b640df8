"""A language model behind an OpenAI-compatible server, as a judge of text.

marin cannot reproduce the model's answers. It keeps each answer, and asks again only when the step is rebuilt.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import urllib.error
import urllib.request
from typing import Any

from marin.data.retrying import PASSING, Tries, retry_after
from marin.errors import BadField, InputError
from marin.steps.value import value

TIMEOUT = 120.0  # seconds
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@value("label/endpoint")
class Endpoint:
    """A labeller that asks a server for one number about a text.

    url: of the server's API, ``https://…/v1``. prompt: with ``{text}`` in place of the text; the last number in the
    answer counts. most_characters: of a text, sent at most. least, most: the allowed range of the number.
    key: name of the environment variable that holds the key, read at each request. If unset, no key is sent.
    """

    url: str
    model: str
    prompt: str
    most_characters: int = 8_000
    least: float = 0
    most: float = 5
    key: str = "OPENAI_API_KEY"

    def __post_init__(self) -> None:
        if "{text}" not in self.prompt:
            raise BadField(f"Endpoint.prompt is {self.prompt[:80]!r}; put {{text}} where the text goes")
        if not self.url.startswith(("http://", "https://")):
            raise BadField(f"Endpoint.url is {self.url!r}; wanted http://… or https://…, up to /v1")
        if self.least >= self.most:
            raise BadField(f"Endpoint: least is {self.least} and most {self.most}; wanted least < most")

    def __call__(self, text: str) -> float:
        """Return the model's number for a text.

        Raises InputError if the server refuses or cannot be reached, or if the answer has no number in range.
        """
        prompt = self.prompt.replace("{text}", text[: self.most_characters])
        answer = ask(self, prompt)
        found = [float(number) for number in NUMBER.findall(answer)]
        if not found or not self.least <= found[-1] <= self.most:
            raise InputError(
                f"{self.model} at {self.url} answered {answer[:200]!r}; wanted a number from {self.least:g} to "
                f"{self.most:g} at its end. Ask for that in the prompt"
            )
        return found[-1]


def ask(endpoint: Endpoint, prompt: str) -> str:
    """Return one answer. Busy servers and lost connections are tried again. Raises InputError."""
    where = f"{endpoint.url.rstrip('/')}/chat/completions"
    body = {"model": endpoint.model, "messages": [{"role": "user", "content": prompt}], "temperature": 0, "seed": 0}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(endpoint.key):
        headers["Authorization"] = f"Bearer {key}"
    request, tries = urllib.request.Request(where, json.dumps(body).encode(), headers), Tries(where)
    again: dict[str, Any] = {"grown": False, "goes_on": "go on with the shards that are not labelled yet"}
    while True:
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                content = response.read()
            break
        except urllib.error.HTTPError as error:
            if error.code not in PASSING:
                said = error.read(300).decode(errors="replace")
                raise InputError(f"{where}: the server answered {error.code} {error.reason}: {said}") from error
            asked = retry_after(dict(error.headers.items()))
            tries.failed(f"the server answered {error.code}", status=error.code, asked=asked, **again)
        except (OSError, http.client.HTTPException) as error:
            tries.failed(str(getattr(error, "reason", error)) or type(error).__name__, **again)
    try:
        said = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"{where}: not an answer of an OpenAI-compatible server: {content[:200]!r}") from error
    return said if isinstance(said, str) else ""


def checked(score: object, labeller: object) -> float:
    """Return the score as a float. Raises InputError unless it is a finite number."""
    if not isinstance(score, int | float) or not math.isfinite(score):
        raise InputError(f"{type(labeller).__name__} returned {score!r} for a text; wanted a finite number")
    return float(score)
