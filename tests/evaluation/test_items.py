"""Items and results survive the disk whatever characters they hold."""

from dataclasses import replace

import pytest

from marin.errors import GarbledDocument
from marin.evaluation.formats import Format
from marin.evaluation.groups import Grouping
from marin.evaluation.items import Item, read_items, write_items
from marin.evaluation.results import ItemResult, Results, read_results, write_results
from marin.store.files.directory import Directory

# Characters that str.splitlines takes for the end of a line and that JSON does not escape.
BREAKS = ("\u2028", "\u2029", "\x85")


@pytest.mark.parametrize("held", BREAKS, ids=ascii)
@pytest.mark.parametrize("url", ["memory://items/{}", "{}"])
def test_line_separators_inside_an_item_do_not_break_it(tmp_path, held: str, url: str):
    where = Directory(url.format(tmp_path))
    items = [Item(f"a{held}", f"How{held}many?", f"Nine{held}\n#### 9", "9"), Item("b", "ü?", "#### 1", "1")]
    assert write_items(where, items) == 2
    assert read_items(where) == items


@pytest.mark.parametrize("held", BREAKS, ids=ascii)
def test_line_separators_inside_an_id_do_not_break_a_result(tmp_path, held: str):
    result = ItemResult("gsm", "olmes", f"a{held}b", 1.0, 2, 0.5, 1, 0.0, 0, 0.0, 0)
    results = Results(
        {("gsm", Format.OLMES): [replace(result, group="story line 3"), replace(result, id="alone")]},
        groups={"gsm": Grouping("story line", {result.id: "story line 3"})},
    )
    write_results(Directory(str(tmp_path)), results)
    assert read_results(Directory(str(tmp_path))) == results


def test_a_line_that_is_no_item_is_named(tmp_path):
    where = Directory(str(tmp_path))
    where.write_text("items.jsonl", '{"id": "a", "question": "", "answer": "", "final": ""}\n{"id": 3}\n')
    with pytest.raises(GarbledDocument, match="line 2"):
        read_items(where)
    where.write_text("items.jsonl", "")
    assert read_items(where) == []
