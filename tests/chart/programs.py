"""Programs that tests of the chart run: unpacked from a folder, or those of the machine."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = "AUTOCOMPRESS_CLUSTER_BIN"


@dataclass(frozen=True)
class Programs:
    """Finds programs; what comes packed is unpacked into ``unpacked`` once."""

    unpacked: Path

    def find(self, name: str) -> Path | None:
        """A program of ``AUTOCOMPRESS_CLUSTER_BIN``, else of PATH; None without either."""
        if folder := os.environ.get(FOLDER):
            packed = Path(folder) / "programs" / f"{name}.xz"
            if packed.exists():
                return self._unpack(packed)
        found = shutil.which(name)
        return Path(found) if found else None

    def _unpack(self, packed: Path) -> Path:
        program = self.unpacked / packed.stem
        if not program.exists():
            with lzma.open(packed) as source, program.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            program.chmod(0o755)
        return program


def run(program: Path, *arguments: object, cwd: Path | None = None) -> str:
    """What a program prints; a failure with its error output where it fails."""
    done = call(program, *arguments, cwd=cwd)
    assert done.returncode == 0, f"{program.name}: {done.stderr or done.stdout}"
    return done.stdout


def call(
    program: Path, *arguments: object, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A program's output and code, whatever they are."""
    return subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=cwd,
    )
