"""Runs the `headwater` command, also as `python -m headwater`."""

import sys


def run() -> None:
    """Run the command. Ctrl-C ends it in a sentence even while its modules are imported."""
    try:
        from headwater.cli.main import main
    except KeyboardInterrupt:
        sys.stderr.write("error: Stopped.\n")
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
