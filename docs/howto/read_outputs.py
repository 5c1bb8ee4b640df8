"""Print the texts of an output: python read_outputs.py STORE IDENTITY"""

import sys

from marin.data.documents import read_documents
from marin.store.store import open_store


def texts(prefix: str, identity: str) -> list[str]:
    store = open_store(prefix)
    record = store.record(identity)
    assert record is not None, "not committed"
    return [document.text for document in read_documents(store.output(record))]


if __name__ == "__main__":
    sys.stdout.writelines(f"{text}\n" for text in texts(*sys.argv[1:]))
