"""Writes the software bill of materials of an installed Headwater as CycloneDX 1.6: `python deploy/sbom.py > FILE`.

It lists the distributions that Headwater needs in this environment, with the given extras: `--extra cluster`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement


def normalise(name: str) -> str:
    """Return the one spelling of a distribution's name.

    >>> normalise("Ruamel.Yaml_clib")
    'ruamel-yaml-clib'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def list_requirements(found: Distribution, extras: frozenset[str]) -> list[Requirement]:
    """List what a distribution needs here, with some of its extras."""
    needed = [Requirement(text) for text in found.requires or ()]
    wanted = [{"extra": extra} for extra in ("", *sorted(extras))]
    return [one for one in needed if one.marker is None or any(one.marker.evaluate(each) for each in wanted)]


def collect(root: str, extras: frozenset[str]) -> dict[str, tuple[Distribution, list[str]]]:
    """Return every distribution that the root needs, by name, with the names of those it needs itself."""
    found: dict[str, tuple[Distribution, list[str]]] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [(root, extras)]
    while waiting:
        name, chosen = waiting.pop()
        if (normalise(name), chosen) in done:
            continue
        done.add((normalise(name), chosen))
        there = distribution(name)
        needed = list_requirements(there, chosen)
        _, before = found.get(normalise(name), (there, []))
        names = {*before, *(normalise(one.name) for one in needed)} - {normalise(name)}
        found[normalise(name)] = (there, sorted(names))
        waiting += [(one.name, frozenset(one.extras)) for one in needed]
    return found


def describe(name: str, found: Distribution) -> dict[str, object]:
    """Return the component of a distribution."""
    address = f"pkg:pypi/{name}@{found.version}"
    component: dict[str, object] = {
        "type": "application" if name == "headwater" else "library",
        "bom-ref": address,
        "name": name,
        "version": found.version,
        "purl": address,
    }
    expression, plain = found.metadata.get("License-Expression"), found.metadata.get("License")
    if expression:
        component["licenses"] = [{"expression": expression}]
    elif plain and "\n" not in plain and len(plain) < 100:
        component["licenses"] = [{"license": {"name": plain}}]
    return component


def make_bom(extras: frozenset[str]) -> dict[str, object]:
    """Return the document; it is the same for the same environment."""
    found = collect("headwater", extras)
    parts = {name: describe(name, there) for name, (there, _) in sorted(found.items())}
    root = parts.pop("headwater")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": list(parts.values()),
        "dependencies": [
            {
                "ref": f"pkg:pypi/{name}@{there.version}",
                "dependsOn": [f"pkg:pypi/{one}@{found[one][0].version}" for one in needed],
            }
            for name, (there, needed) in sorted(found.items())
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", action="append", default=[])
    extras = frozenset(parser.parse_args().extra)
    try:
        bom = make_bom(extras)
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed. Install Headwater with the extras that you name.")
    json.dump(bom, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
