"""The program weft, as `weft …` and `python -m weft …`."""

import os
import signal
import sys
from typing import NoReturn

from ._errors import Failed
from ._program import find


def main() -> NoReturn:
    """Becomes the program, with the arguments of this process."""
    # Python ignores these, and the program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        program = find()
        # Where it names the command weft of this package, that would name it again.
        os.environ.pop("WEFT_PROGRAM", None)
        os.execv(program, ["weft", *sys.argv[1:]])
    except Failed as error:
        sys.exit(f"weft: {error}")
    except OSError as error:
        sys.exit(f"weft: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
