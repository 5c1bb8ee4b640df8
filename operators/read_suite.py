"""ReadSuite: read a published evaluation suite as items for decontamination."""

from __future__ import annotations

from marin import Context, ExecutorStep, Items, RawFiles
from marin.errors import GarbledDocument


class ReadSuite(ExecutorStep[Items], op="read-suite", version=1):
    """The items of downloaded files, whose fields may have many names: MMLU, BBH, HellaSwag, HumanEval, AGIEval, ARC …

    The step finds the question, the answer and the choices by the names of their fields; marin.evaluation.published
    lists these names. Use the items for Decontaminate and Exposure; for Evaluate, read items with ReadItems. Raises
    GarbledDocument for a record without a question, and if there is no file that it can read.
    """

    files: ExecutorStep[RawFiles]

    def run(self, ctx: Context) -> Items:
        from marin.evaluation.items import write_items
        from marin.evaluation.published import is_suite, read_suite

        raw = ctx[self.files].directory
        names = [name for name in raw.names() if is_suite(name)]
        items = [item for name in names for item in read_suite(raw, name)]
        if not items:
            raise GarbledDocument(f"{raw.url}: no item in {len(names)} files of a known format (JSON, CSV, Parquet)")
        return Items(items=write_items(ctx.out, items))
