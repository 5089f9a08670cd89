"""`kipctl`, and `python -m kipctl`."""

import signal
import sys


def main() -> None:
    """Entry point of the console script.

    Ctrl-C while it is loaded ends it at once and without a traceback: nothing has begun.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:2] == ["__complete"]:  # a key press waits for it: without all commands
        from kipctl.cli.complete import main as begin
    else:
        from kipctl.cli.app import main as begin

    begin()


if __name__ == "__main__":
    main()
