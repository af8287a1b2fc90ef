"""The `headwater` command: collects the groups and turns errors raised on purpose into one sentence."""

from __future__ import annotations

from headwater import __version__
from headwater.cli import farm, feeds, lab, query, serve
from headwater.cli.common import command, fail, group, out
from headwater.cli.read import read_command
from headwater.errors import HeadwaterError

app = group("Headwater watches many web feeds under a budget and loses as few items as possible.")
app.add_typer(feeds.app, name="feeds")
app.add_typer(lab.app, name="lab")
app.add_typer(query.app, name="query")
farm.register(app)
serve.register(app)
command(app, "read", epilog="headwater read feed.xml --json")(read_command)


@command(app)
def version() -> None:
    """Print the version."""
    out.print(__version__)


def main() -> None:
    try:
        app()
    except HeadwaterError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("Stopped.", 130)
