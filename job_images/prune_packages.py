"""Takes out of site-packages what no run reads: tests, headers, static libraries, build tools."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

#: Folders of tests that are shipped for the package's own developers.
TESTED = (
    "networkx",
    "nltk",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "sympy",
)
#: What compiling against a package needs.
HEADERS = ("numpy/_core/include", "pyarrow/include", "pyarrow/src", "torch/include", "torch/share")
#: Packages that only build others; setuptools is not among them: torch's extensions import it.
BUILDERS = ("ninja", "pip")


def main(packages: Path) -> None:
    """Removes them."""
    doomed = [
        *(tests for name in TESTED for tests in (packages / name).rglob("tests")),
        *(packages / folder for folder in HEADERS),
        *(packages / name for name in BUILDERS),
        *(info for name in BUILDERS for info in packages.glob(f"{name}-*.dist-info")),
        *packages.rglob("*.a"),
        # Tests; but torch is not imported without the manager of its shared memory.
        *(f for f in (packages / "torch/bin").glob("*") if f.name != "torch_shm_manager"),
    ]
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
