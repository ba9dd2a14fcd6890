"""`python -m memest ARGS...`: the program that the package brings."""

import os
import shutil
import sys
import sysconfig
from typing import Optional


def _program() -> Optional[str]:
    schemes = ("", f"{os.name}_user", "posix_prefix")
    folders = [sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts") for scheme in schemes]
    return shutil.which("memest", path=os.pathsep.join(folders))


def main() -> int:
    program = _program()
    if program is None:
        print("memest: the program is not where this Python puts programs", file=sys.stderr)
        return 3
    os.execv(program, [program, *sys.argv[1:]])
    return 70


if __name__ == "__main__":
    sys.exit(main())
