"""What one step of the program asks of the device: kernels, products and messages by the null device, and the operators of PyTorch
that they belong to, by its execution trace. Neither changes what the program does: no mode is on its way to the kernels."""

import ctypes
import os
import threading

from memest_recorder.operators import Operators

WATCHED_STEPS = 2  # the first one sets much up: the second is told where there is one
FullListener = ctypes.CFUNCTYPE(None)


class Span:
    """The work between two ends of an optimizer, as files."""

    def __init__(self, folder, number):
        self.work = os.path.join(folder, f"{os.getpid()}.{number}.work")
        self.operators = os.path.join(folder, f"{os.getpid()}.{number}.operators")

    def lines(self, first_operator):
        """The lines of a recording, and how many operators they tell."""
        operators = Operators(self.operators)
        lines = []
        with open(self.work) as file:
            for line in file:
                words = line.split()
                if words[1] in ("k", "g", "c", "m"):
                    handle = int(words[4])
                    if handle:
                        number, told = operators.tell(handle, first_operator)
                        words[4] = str(number)
                        if told:
                            lines.append(told)
                    line = " ".join(words)
                lines.append(line.rstrip("\n"))
        return lines, first_operator + len(operators.told)

    def remove(self):
        for path in (self.work, self.operators):
            if os.path.exists(path):
                os.remove(path)


class WorkWatch:
    def __init__(self, torch, library):
        self.torch = torch
        self.library = library
        self.folder = os.environ["MEMEST_RECORD_FOLDER"]
        self.spans = {}  # by step, those whose optimizer has ended
        self.count = 0
        self.span = None
        self.full = False
        self.listener = FullListener(self.stop_when_full)
        library.memest_record_listen_to_full_work(self.listener)
        os.register_at_fork(after_in_child=self.leave_to_parent)
        self.ranges = None
        self.thread = threading.get_ident()  # the ranges are this thread's, and autograd's for it
        self.give_way_to_profiler()
        ranges = torch.autograd.profiler.emit_nvtx(record_shapes=False)
        ranges.__enter__()
        self.ranges = ranges
        self.begin()

    # --- Spans ---------------------------------------------------------------------------------------------------

    def begin(self):
        self.span = Span(self.folder, self.count)
        self.count += 1
        with Silence(self.torch):
            self.torch._C._profiler._add_execution_trace_observer(self.span.operators)
            self.torch._C._profiler._enable_execution_trace_observer()
        self.library.memest_record_watch_work(1)

    def end(self):
        span, self.span = self.span, None
        self.library.memest_record_write_work(span.work.encode())
        self.library.memest_record_watch_work(0)
        with Silence(self.torch):
            self.torch._C._profiler._disable_execution_trace_observer()
            self.torch._C._profiler._remove_execution_trace_observer()
        return span

    def mark(self, name):
        if self.span:
            self.library.memest_record_mark_work(name.encode())

    def after_optimizer(self, step):
        """What follows belongs to the next step, or to this one where it has another optimizer."""
        if not self.span:
            return
        self.spans.setdefault(step, []).append(self.end())
        for span in self.spans.pop(step - 1, ()):
            span.remove()
        if not self.full:
            self.begin()

    def before_step(self, step):
        if step > WATCHED_STEPS:
            self.stop()

    def stop(self, ended=True):
        """Of a program without an optimizer all that it did is told, if it has `ended`."""
        if self.ranges is None:
            return
        if self.span:
            span = self.end()
            if self.spans or not ended:
                span.remove()
            else:
                self.spans[0] = [span]
        ranges, self.ranges = self.ranges, None
        if threading.get_ident() == self.thread:
            ranges.__exit__(None, None, None)

    def stop_when_full(self):
        self.full = True
        with Silence(self.torch):
            self.torch._C._profiler._disable_execution_trace_observer()

    def leave_to_parent(self):
        """A worker's operators are none of this process's, and both would write one file."""
        self.library.memest_record_watch_work(0)
        if self.span:
            with Silence(self.torch):
                self.torch._C._profiler._disable_execution_trace_observer()
        self.span = self.ranges = None

    def lines(self):
        """Of a recording; empty where no step came to its end."""
        if not self.spans:
            return []
        step = max(self.spans)
        lines = [f"# work: {'step' + str(step) if step else 'program'}"]
        first = 1
        for span in self.spans[step]:
            told, first = span.lines(first)
            lines += told
            span.remove()
        if self.full:
            lines.append("# work: cut off")
        return lines

    # --- The program's own profiler ----------------------------------------------------------------------------

    def give_way_to_profiler(self):
        """PyTorch has one profiler at a time in a thread: the program's goes first."""
        profiler = self.torch.autograd.profiler
        for name in ("_prepare_profiler", "_enable_profiler"):
            setattr(profiler, name, self.stopping_first(getattr(profiler, name)))

    def stopping_first(self, call):
        def stops_and_calls(*arguments):
            if threading.get_ident() == self.thread:
                self.stop(ended=False)
            return call(*arguments)

        return stops_and_calls


class Silence:
    """The observer tells the program's user that it begins and ends, as warnings of libc10's logger."""

    LEVEL = "FLAGS_caffe2_log_level"
    ERROR = 2

    def __init__(self, torch):
        logger = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
        try:
            self.level = ctypes.c_int.in_dll(ctypes.CDLL(logger), self.LEVEL)
        except (OSError, ValueError):
            self.level = ctypes.c_int(0)

    def __enter__(self):
        self.kept = self.level.value
        self.level.value = self.ERROR

    def __exit__(self, *_):
        self.level.value = self.kept
