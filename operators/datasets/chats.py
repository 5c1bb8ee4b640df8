"""The sets of chats that fine-tuned the 8B, weighted by their numbers of chats.

Source: https://github.com/marin-community/marin/issues/1237. The run's code states abbreviated commits, whose full
digits are not public; the hub finds the commit that begins with these digits. The fields of each set follow
experiments/posttrain/instruction_datasets.py of marin-community/marin. A rehearsal has worked problems in place of
each set.
"""

from __future__ import annotations

from dataclasses import dataclass

from marin import ExecutorStep, RawFiles, Scale
from operators.datasets.corpus import Corpus, Hub, by_name
from operators.datasets.gsm8k import problems
from operators.datasets.rehearsal.math_problems import GenerateItems, ProblemChats
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.problems import Split
from operators.download import HuggingFace
from operators.read_chats import ChatFields, ReadChats

MESSAGES = ChatFields()
UNKNOWN = "unknown here: see the dataset's page"


@dataclass(frozen=True, kw_only=True)
class Chats:
    """A set of chats.

    revision: the digits that the run's code states. chats: their number, which is the set's weight. fields: the fields
    of a record that hold its chat.
    """

    name: str
    repo: str
    revision: str
    chats: int
    files: tuple[str, ...] = ("data/train-*.parquet",)
    fields: ChatFields = MESSAGES
    licence: str = UNKNOWN

    def raw(self, scale: Scale) -> ExecutorStep[RawFiles]:
        """Return the step that brings the chats, each as a list of messages."""
        if scale is Scale.REHEARSAL:
            items = GenerateItems(seed=700 + list(SETS).index(self.name), count=60, split=Split.TRAIN, label=self.name)
            return ProblemChats(items=items, label=self.name)
        files = HuggingFace(repo=self.repo, revision=self.revision, patterns=self.files, label=self.name)
        return ReadChats(files=files, fields=self.fields, label=self.name)


SETS = {
    each.name: each
    for each in (
        Chats(
            name="natural_reasoning",
            repo="facebook/natural_reasoning",
            revision="99eea5d",
            chats=1_145_824,
            files=("*.jsonl",),
            fields=ChatFields(turns="", prompt="question", answer="responses", content="response"),
        ),
        Chats(
            name="smoltalk",
            repo="HuggingFaceTB/smoltalk",
            revision="2c849df",
            chats=1_043_917,
            files=("data/all/train-*.parquet",),
        ),
        Chats(name="tulu_3", repo="allenai/tulu-3-sft-mixture", revision="55e9fd6", chats=939_343),
        Chats(
            name="verifiable_math",
            repo="PrimeIntellect/verifiable-math-problems",
            revision="2ad7c92",
            chats=777_457,
            fields=ChatFields(turns="", prompt="prompt", answer="gold_standard_solution"),
        ),
        Chats(
            name="dolphin_r1_reasoning",
            repo="cognitivecomputations/dolphin-r1",
            revision="f6ac651",
            chats=585_418,
            files=("*reasoning-deepseek*", "*reasoning-flash*"),
            fields=ChatFields(answer="answer"),
        ),
        Chats(
            name="dolphin_r1_nonreasoning",
            repo="cognitivecomputations/dolphin-r1",
            revision="f6ac651",
            chats=214_318,
            files=("*nonreasoning*",),
        ),
        Chats(name="openthoughts_math", repo="open-r1/OpenThoughts-114k-math", revision="2db609d", chats=89_120),
        Chats(
            name="acecode",
            repo="TIGER-Lab/AceCode-89K",
            revision="0361e95",
            chats=87_149,
            fields=ChatFields(turns="", prompt="question", answer="inferences", content="completion", best="pass_rate"),
        ),
        Chats(
            name="bespoke_stratos",
            repo="bespokelabs/Bespoke-Stratos-17k",
            revision="9e9adba",
            chats=16_710,
            fields=ChatFields(turns="conversations", role="from", content="value", system="system"),
        ),
    )
}

# Templates of a chat; the loss counts only the assistant's words. At full scale with Llama 3's own tokens.
_SAID = "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}"
TEMPLATES = {
    Scale.FULL: "{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    + _SAID
    + "<|eot_id|>{% endgeneration %}{% else %}{{ message['content'] }}<|eot_id|>{% endif %}{% endfor %}",
    Scale.REHEARSAL: "{% for message in messages %}{{ message['role'] }}:\n"
    + _SAID
    + "\n{% endgeneration %}{% else %}{{ message['content'] }}\n{% endif %}{% endfor %}",
}

CORPORA = by_name(
    Corpus(
        name="tulu_sft_train",
        weight=0.001,  # from Spoonbill's mixture; no token count is public
        licence=UNKNOWN,
        kind="chats, one text each",
        full=Hub(
            repo=SETS["tulu_3"].repo,
            revision=SETS["tulu_3"].revision,
            patterns=SETS["tulu_3"].files,
            template="user: {messages[0][content]}\nassistant: {messages[1][content]}",
        ),
        rehearsal=problems("tulu_sft_train", seed=67, count=120, form=Form.INSTRUCTION),
        published="the run pinned the abbreviated commit 55e9fd6, whose full digits are not public, and read whole "
        "chats; this is the first question and answer of each chat",
    ),
)
