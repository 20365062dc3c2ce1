"""``python -m trifold``: the command line."""

from trifold.cli import main

if __name__ == "__main__":
    main()
