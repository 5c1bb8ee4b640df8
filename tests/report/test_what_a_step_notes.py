"""Context.note reaches people: at the end of the run and on the page, also when the output is reused."""

from pathlib import Path

from tests.support.project import EXPERIMENT, Project

NOTING = EXPERIMENT.replace(
    'ctx.out.write_text("text.txt", shout(self.text))',
    'ctx.out.write_text("text.txt", shout(self.text)); ctx.note("the tracker lacks step 3")',
)


def test_a_note_is_on_the_terminal_once_and_on_every_page(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", NOTING)
    assert "note: say/say: the tracker lacks step 3" in project.run()
    [page] = (project.store / ".marin/pages").glob("*.html")
    assert "the tracker lacks step 3" in page.read_text()
    page.unlink()
    assert "note:" not in project.run()
    assert "the tracker lacks step 3" in page.read_text()
