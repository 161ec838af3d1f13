"""``python -m anycard`` is ``anycard``: for an interpreter whose scripts are not on the PATH."""

from anycard.cli.main import main

if __name__ == "__main__":
    main()
