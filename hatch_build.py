"""Compiles the reading of documents with mypyc while the package is built.

Where that does not work, mostly for want of a C compiler, the package is built all the same and reads by Python alone:
slower by a quarter, and no different otherwise. `headwater.native` says when the compiled modules are used.
"""

from __future__ import annotations

import os
import runpy
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "headwater.formats"
# The way in takes what callers give it, and says what is wrong with it; compiled, mypyc would, in its own words. The
# others read what comes seldom.
LEFT_OUT = frozenset({"__init__", "reader", "cdf", "guess", "lastresort", "opml", "rssjson"})


class Compile(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        source = Path(self.root, "src")
        native = runpy.run_path(str(source / "headwater" / "native.py"))
        folder = source.joinpath(*PACKAGE.split("."))
        into = folder / native["FOLDER"]
        shutil.rmtree(into, ignore_errors=True)
        try:
            _compile(source, folder, into)
        except (Exception, SystemExit) as error:  # mypy leaves by the latter
            shutil.rmtree(into, ignore_errors=True)
            self.app.display_warning(f"Reading is not compiled, and runs as Python: {error}")
            return
        (into / native["SOURCES"]).write_text(native["digest"](folder))
        build_data["infer_tag"] = True
        build_data["pure_python"] = False
        build_data["artifacts"].append(f"/{into.relative_to(self.root).as_posix()}/")


def _compile(source: Path, folder: Path, into: Path) -> None:
    from mypyc.build import mypycify
    from setuptools import Distribution

    modules = [str(path) for path in sorted(folder.glob("*.py")) if path.stem not in LEFT_OUT]
    os.environ["MYPYPATH"] = str(source)
    # Of other packages nothing is known, whoever builds: their stubs are not always right, and mypyc would insist.
    options = ["--config-file=", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]
    options += ["--explicit-package-bases", f"--cache-dir={os.devnull}"]
    with TemporaryDirectory() as temporary:
        made = mypycify(
            [*options, *modules], group_name=f"{PACKAGE}.all", target_dir=temporary, opt_level="1", debug_level="0"
        )  # what more would optimise is not where the time goes, and takes the compiler half as long again
        command: Any = Distribution({"name": "headwater", "ext_modules": made}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = f"{temporary}/lib", f"{temporary}/objects"
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
        shutil.copytree(Path(temporary, "lib", *PACKAGE.split(".")), into)
