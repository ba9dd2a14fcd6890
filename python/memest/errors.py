"""What stands in the way of an answer: one exception for each exit code of the program."""

import json
from typing import NamedTuple, Optional, Tuple


class Diagnostic(NamedTuple):
    """One mistake or warning, and where it is."""

    severity: str  #: error, warning or note
    message: str
    text: str  #: as the program prints it, with the line of the spec and carets
    unavailable: bool  #: nothing is wrong with the text, but memest has no answer for what it asks
    hint: Optional[str] = None
    file: Optional[str] = None  #: a path, a flag, or `<spec>.json` for a spec that was given as a mapping
    line: Optional[int] = None
    column: Optional[int] = None
    length: Optional[int] = None

    def __str__(self) -> str:
        return self.text.rstrip("\n")


def diagnostics_of(text: str) -> Tuple[Diagnostic, ...]:
    return tuple(Diagnostic(**row) for row in json.loads(text))


class MemestError(Exception):
    """No answer. `diagnostics` has every mistake, `exit_code` is the program's."""

    exit_code = 70

    def __init__(self, diagnostics: Tuple[Diagnostic, ...], exit_code: Optional[int] = None):
        super().__init__("\n".join(str(one) for one in diagnostics))
        self.diagnostics = diagnostics
        self.exit_code = type(self).exit_code if exit_code is None else exit_code

    def __reduce__(self):
        return (type(self), (self.diagnostics, self.exit_code))


class BadInput(MemestError, ValueError):
    """A spec or a flag is wrong."""

    exit_code = 2


class EnvironmentFailed(MemestError, OSError):
    """A file cannot be read or written, or there is no memory."""

    exit_code = 3

    __str__ = Exception.__str__


class NotKnown(MemestError, NotImplementedError):
    """Nothing is wrong: memest has no answer for this model, framework or release, and says for which."""

    exit_code = 4


class Bug(MemestError, RuntimeError):
    """A mistake of memest's own, please report it."""

    exit_code = 70


_BY_EXIT_CODE = {error.exit_code: error for error in (BadInput, EnvironmentFailed, NotKnown, Bug)}


def error_of(exit_code: int, diagnostics: Tuple[Diagnostic, ...]) -> MemestError:
    return _BY_EXIT_CODE.get(exit_code, MemestError)(diagnostics, exit_code)
