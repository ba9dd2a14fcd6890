"""libmemest.so, the C++ library behind the package, through its C interface (src/cli/library/memest.h)."""

import ctypes
from pathlib import Path
from typing import List, NamedTuple, Sequence, Tuple


class _Text(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("text", ctypes.c_char_p)]


class _Question(ctypes.Structure):
    _fields_ = [
        ("words", ctypes.POINTER(ctypes.c_char_p)),
        ("word_count", ctypes.c_size_t),
        ("texts", ctypes.POINTER(_Text)),
        ("text_count", ctypes.c_size_t),
    ]


class _Answer(ctypes.Structure):
    _fields_ = [("exit_code", ctypes.c_int), ("text", ctypes.c_char_p), ("diagnostics", ctypes.c_char_p)]


def _opened() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(__file__).with_name("libmemest.so")))
    library.memest_ask.argtypes = [ctypes.POINTER(_Question)]
    library.memest_ask.restype = ctypes.POINTER(_Answer)
    library.memest_free.argtypes = [ctypes.POINTER(_Answer)]
    library.memest_free.restype = None
    library.memest_version.restype = ctypes.c_char_p
    return library


_LIBRARY = _opened()


class RawAnswer(NamedTuple):
    exit_code: int
    text: str
    diagnostics: str


def version() -> str:
    return _LIBRARY.memest_version().decode()


def _bytes_of(text: str) -> bytes:
    """As a program's arguments: what was no UTF-8 in a path is the same bytes again."""
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError(f"a zero byte in {text!r}")
    return data


def ask(words: Sequence[str], texts: Sequence[Tuple[str, str]]) -> RawAnswer:
    """The answer to a command line whose words may name `texts`, pairs of a name and what it stands for.

    Other threads of Python go on meanwhile.
    """
    encoded: List[bytes] = [_bytes_of(word) for word in words]
    question = _Question(
        (ctypes.c_char_p * len(encoded))(*encoded),
        len(encoded),
        (_Text * len(texts))(*[_Text(_bytes_of(name), _bytes_of(text)) for name, text in texts]),
        len(texts),
    )
    answer = _LIBRARY.memest_ask(ctypes.byref(question))
    if not answer:
        raise MemoryError("memest found no memory for its answer")
    try:
        raw = answer.contents
        return RawAnswer(raw.exit_code, raw.text.decode(), raw.diagnostics.decode())
    finally:
        _LIBRARY.memest_free(answer)
