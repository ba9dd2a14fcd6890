"""Ctrl-C may come at any moment; a recording that is being written is written to its end first."""

import _thread
import contextlib
import functools
import signal
import threading

LATER = 0.01  # seconds in which a callback from C, which cannot raise, has returned


def uninterrupted(method):
    """A SIGINT that comes while `method` runs in the main thread comes behind it. Other threads are given none by Python."""

    @functools.wraps(method)
    def wrapped(*arguments, **options):
        if threading.current_thread() is not threading.main_thread():
            return method(*arguments, **options)
        came = []
        handler = signal.signal(signal.SIGINT, lambda *_: came.append(True))
        try:
            return method(*arguments, **options)
        finally:
            signal.signal(signal.SIGINT, handler if handler is not None else signal.SIG_DFL)
            if came:
                again = threading.Timer(LATER, _thread.interrupt_main)
                with contextlib.suppress(RuntimeError):  # Python is ending, which was asked for
                    again.start()

    return wrapped
