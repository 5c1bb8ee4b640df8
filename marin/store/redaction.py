"""Remove credentials from every text on its way to the store or to people.

These count as credentials: user and password in a URL, query parameters named token, signature and the like, tokens of
well-known shapes, private keys, options and assignments with secret names, and the values of environment variables with
secret names.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Mapping
from typing import Any, cast

HIDDEN = "***"
SHORTEST = 8  # characters of an environment variable's value; shorter ones occur in any text
WORDS = ("token", "secret", "passw", "passphrase", "signature", "credential", "key")  # every secret name has one
# One begins each known shape.
PREFIXES = ("hf_", "gh", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza", "ya29.", "xox", "sk-", "eyJ")
_AFTER_SCHEME = r"://[^\s\"'<>\\]+"
# It matches from the scheme's last character on: matching the whole scheme is quadratic in the longest word.
_URL = re.compile(rf"[A-Za-z0-9+.-]{_AFTER_SCHEME}")
_USER = re.compile(r"(://)(?:[^/?#@]*:[^/?#]*|[^/?#@]{20,})@")
_SECRET = (
    r"(?:[\w.-]*(?:token(?!iz|s)|secret|passw(?:or)?d|passphrase|signature|credential|api[-_.]?key|access[-_.]?key)"
    r"[\w.-]*"
)
_PARAMETER = re.compile(rf"([?&#;]{_SECRET}|key|sig|sas|auth|jwt|pwd)=)[^&#;]+", re.IGNORECASE)
_OPTION = re.compile(rf"((?<!-)--{_SECRET})[ =])(?!-)[^\s\"']+", re.IGNORECASE)
_ASSIGNED = re.compile(r"(\b[A-Z][A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY)=)[^\s\"']+")
_HEADER = re.compile(r"(\b(?:Bearer|Basic) )(?=[^\s\"']*[\d=._-])[\w.~+/-]{8,}=*")
_SHAPES = re.compile(
    r"(?<![\w-])(?:"
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}|"
    r"AIza[\w-]{35}|ya29\.[\w-]{20,}|xox[abprs]-[\w-]{10,}|sk-(?=[\w-]*\d)[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"
    r")"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_NAMED_SECRET = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|KEY)(?:_|$)(?!FILE|PATH|DIR)")


def redacted(text: str) -> str:
    """Return the text with every credential replaced by ``***``. Redacting twice changes nothing."""
    lowered = text.lower()
    if "://" in text:
        text = _URL.sub(lambda found: _without_secrets(found[0]), text)
    if ("=" in text or "--" in text) and any(word in lowered for word in WORDS):
        text = _ASSIGNED.sub(rf"\1{HIDDEN}", _OPTION.sub(rf"\1{HIDDEN}", text))
    if "Bearer " in text or "Basic " in text:
        text = _HEADER.sub(rf"\1{HIDDEN}", text)
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
    if any(prefix in text for prefix in PREFIXES):
        text = _SHAPES.sub(HIDDEN, text)
    for secret in _secrets(len(os.environ), int(time.monotonic())):
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text


def redacted_bytes(text: bytes) -> bytes:
    """Redact a log or a page, which may hold bytes that are not text."""
    return redacted(text.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def without_credentials[T](value: T) -> T:
    """Return JSON-able data with every string redacted, except the keys of mappings."""
    made: Any = value
    if isinstance(value, str):
        made = redacted(value)
    elif isinstance(value, Mapping):
        made = {key: without_credentials(item) for key, item in cast(Mapping[Any, Any], value).items()}
    elif isinstance(value, (list, tuple)):
        made = [without_credentials(item) for item in cast(list[Any], value)]
    return made


def is_address_with_credentials(text: str) -> bool:
    """Is the whole text a URL that holds a credential? Secrets of the environment do not count."""
    return re.fullmatch(rf"[A-Za-z][A-Za-z0-9+.-]*{_AFTER_SCHEME}", text) is not None and _without_secrets(text) != text


def _without_secrets(url: str) -> str:
    return _PARAMETER.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", url))


@functools.lru_cache(maxsize=1)
def _secrets(variables: int, second: int) -> tuple[str, ...]:
    """Return the values of environment variables with secret names, the longest first, without paths.

    variables, second: how many there are and the time. Reading the environment for every line costs more than the line.
    """
    found = {
        value
        for name, value in os.environ.items()
        if len(value) >= SHORTEST and not value.startswith("/") and _NAMED_SECRET.search(name.upper())
    }
    return tuple(sorted(found, key=len, reverse=True))
