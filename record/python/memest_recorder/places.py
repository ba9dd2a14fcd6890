"""The line that asked for memory, in the words of an answer: no folder of anybody's disk."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
TORCH = os.sep + "torch" + os.sep
PACKAGES = os.sep + "site-packages" + os.sep
LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def shown(file):
    """A file's name below site-packages, below the working directory, or alone."""
    if PACKAGES in file:
        return file.rpartition(PACKAGES)[2]
    path = os.path.relpath(file) if os.path.isabs(file) else file
    return os.path.basename(file) if path.startswith("..") else path


def is_of_program(file):
    """Whether people who run the program wrote it: no package, nothing of Python's own, no text in memory."""
    return PACKAGES not in file and not file.startswith((LIBRARY, "<", HERE))


def place_of(frames):
    """Of (file, line, function), the innermost first: the first outside of torch and, where that is a package's, the program's own
    line that led there. Empty where there is no Python at all, as in autograd's thread."""
    frames = [frame for frame in frames if not frame[0].startswith(HERE)]
    near = next((frame for frame in frames if TORCH not in frame[0] and not frame[0].startswith("<")), None)
    if near is None:
        near = next(iter(frames), None)
    if near is None:
        return ""
    text = f"{shown(near[0])}:{near[1]} {near[2]}"
    own = near if is_of_program(near[0]) else next((frame for frame in frames if is_of_program(frame[0])), None)
    return text if own is None or own is near else f"{text}, from {shown(own[0])}:{own[1]}"


def here(depth):
    """The place of the caller that many frames up."""
    try:
        frame = sys._getframe(depth)
    except ValueError:
        return ""
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return place_of(frames)
