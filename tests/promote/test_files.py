"""Files in a working tree: reproducible, whole, and nobody else's overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from autocompress.contract.errors import DataError
from autocompress.promote.files import foreign, render, write

DOCUMENT = {"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}


def text(name: str = "a", notes: tuple[str, ...] = ()) -> str:
    return render(({**DOCUMENT, "metadata": {"name": name}},), job="team/a", notes=notes)


def test_a_file_says_where_it_comes_from_and_reads_back() -> None:
    written = render((DOCUMENT, DOCUMENT), job="team/a", notes=("Needs a Secret.",))
    assert "from compressionjob team/a" in written.splitlines()[0]
    assert written.splitlines()[1] == "# Needs a Secret."
    assert list(yaml.safe_load_all(written)) == [DOCUMENT, DOCUMENT]
    assert "&" not in written


def test_the_same_input_gives_the_same_bytes_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.yaml"
    first = write({path: text()})
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
    second = write({path: text()})
    assert [each.changed for each in (*first, *second)] == [True, False]
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert [each.name for each in path.parent.iterdir()] == ["a.yaml"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_later_promotion_replaces_its_own_files(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    write({path: text(notes=("A note.", "Another."))})
    assert foreign({path: text("b")}) == ()
    write({path: text("b")})
    assert yaml.safe_load(path.read_text())["metadata"]["name"] == "b"


@pytest.mark.parametrize(
    "content",
    [
        b"kind: Service\n",
        text().replace("port: 80", "port: 81").encode(),
        text().splitlines()[0].encode(),
        b"\xff\xfe",
    ],
)
def test_what_a_person_wrote_or_changed_is_foreign(tmp_path: Path, content: bytes) -> None:
    mine, theirs = tmp_path / "mine.yaml", tmp_path / "theirs.yaml"
    write({mine: text()})
    theirs.write_bytes(content)
    assert foreign({mine: text(), theirs: text(), tmp_path / "new.yaml": text()}) == (theirs,)


def test_when_one_file_cannot_be_written_none_is_changed(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder is needed")
    texts = {tmp_path / "a.yaml": text(), tmp_path / "blocked" / "b.yaml": text()}
    with pytest.raises(DataError, match="cannot be written"):
        write(texts)
    assert [each.name for each in tmp_path.iterdir()] == ["blocked"]
