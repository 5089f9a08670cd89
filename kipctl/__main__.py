"""`python -m kipctl`, the same as `kipctl`."""

from kipctl.cli.app import main

if __name__ == "__main__":
    main()
