"""The supply chain: locks with hashes that fit pyproject.toml, few upper bounds, and a bill of materials."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from support import ROOT

LOCKS = ROOT / "deploy" / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^ ;\\]+)")


def read_pins(file: Path) -> dict[str, list[tuple[str, int]]]:
    """Return the pinned versions of each distribution, and how many hashes each has."""
    pins: dict[str, list[tuple[str, int]]] = {}
    for block in re.split(r"\n(?=\S)", file.read_text()):
        found = PIN.match(block)
        assert found is not None, block[:80]
        pins.setdefault(found[1].lower(), []).append(
            (found[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)))
        )
    return pins


def list_needed(extra: str) -> list[Requirement]:
    """List the direct requirements of an extra, and of the extras that it names."""
    needed = [Requirement(text) for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]]
    for own in [one for one in needed if one.name == "headwater"]:
        needed.remove(own)
        for other in own.extras:
            needed += list_needed(other)
    return needed


@pytest.mark.parametrize(("lock", "extra"), [("server", "cluster"), ("dev", "dev")])
def test_a_lock_pins_what_the_project_needs_with_hashes(lock: str, extra: str) -> None:
    pins = read_pins(LOCKS / f"{lock}.txt")
    assert [name for name, versions in pins.items() if any(not hashes for _, hashes in versions)] == []
    for needed in list_needed(extra):
        versions = pins.get(re.sub(r"[-_.]+", "-", needed.name).lower(), [])
        assert versions, f"{needed.name} is not locked: run make lock"
        assert all(needed.specifier.contains(version) for version, _ in versions), f"{needed}: run make lock"
    assert "://" not in (LOCKS / f"{lock}.txt").read_text()


def test_the_container_and_ci_install_the_locks_and_ci_audits_them() -> None:
    assert "--require-hashes -r server.txt" in (ROOT / "deploy" / "Containerfile").read_text()
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert ci["env"]["LOCKED"] == "1"
    audit = " ".join(step.get("run", "") for step in ci["jobs"]["audit"]["steps"])
    assert "pip install --require-hashes -r deploy/locks/audit.txt" in audit
    (audited,) = re.findall(r"for lock in (.*); do", audit)
    assert sorted(audited.split()) == sorted(lock.stem for lock in LOCKS.iterdir())
    # Without --strict, pip-audit is content with distributions of which it knows nothing.
    assert "pip-audit --strict --disable-pip --require-hashes -r deploy/locks/$lock.txt" in audit
    assert all(hashes for versions in read_pins(LOCKS / "audit.txt").values() for _, hashes in versions)
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "make sbom" in release


def test_an_upper_bound_says_which_break_it_avoids() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    bounded = [line for line in lines if re.match(r'\s*"[A-Za-z].*<[0-9]', line)]
    assert [line for line in bounded if "#" not in line] == []


def test_the_bill_of_materials_names_every_dependency_once() -> None:
    command = [sys.executable, str(ROOT / "deploy" / "sbom.py"), "--extra", "cluster"]
    bom = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (bom["bomFormat"], bom["specVersion"], bom["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        "headwater",
    )
    refs = [bom["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in bom["components"])]
    assert len(set(refs)) == len(refs)
    assert {one["ref"] for one in bom["dependencies"]} == set(refs)
    assert {ref for one in bom["dependencies"] for ref in one["dependsOn"]} <= set(refs)
    names = {one["name"] for one in bom["components"]}
    assert {re.sub(r"[-_.]+", "-", one.name).lower() for one in list_needed("cluster")} <= names
