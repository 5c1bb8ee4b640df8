"""Two verbs: one that writes a document, one that counts the words of it."""

from marin import Context, Documents, ExecutorStep, Items


def cleaned(text):
    return " ".join(text.split()).lower()


class WriteText(ExecutorStep[Documents], op="before-write"):
    text: str

    def run(self, ctx: Context) -> Documents:
        ctx.out.write_text("text.txt", cleaned(self.text))
        return Documents(documents=1, bytes=len(self.text), shards=1)


class CountWords(ExecutorStep[Items], op="before-count"):
    documents: ExecutorStep[Documents]
    at_least: int = 1

    def run(self, ctx: Context) -> Items:
        words = ctx[self.documents].directory.read_text("text.txt").split()
        ctx.out.write_text("words.txt", "\n".join(words))
        return Items(items=len(words))
