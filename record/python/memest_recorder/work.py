"""What one step of the program asks of the device: kernels, products and messages by the null device, and the operators of PyTorch
that they belong to, by its execution trace. Neither changes what the program does: no mode is on its way to the kernels."""

import ctypes
import os
import threading

from memest_recorder.operators import Operators, handle_of

WATCHED_STEPS = 2  # the first one sets much up: the second is told where there is one
FullListener = ctypes.CFUNCTYPE(None)


class WorkWatch:
    def __init__(self, torch, library, modules):
        self.torch = torch
        self.library = library
        self.modules = modules
        self.folder = os.environ["MEMEST_RECORD_FOLDER"]
        self.operators = self.path("operators")
        self.spans = {}  # by step, the work until the end of each of its optimizers: files
        self.count = 0
        self.watches = False
        self.full = False
        self.listener = FullListener(self.stop_when_full)
        library.memest_record_listen_to_full_work(self.listener)
        os.register_at_fork(after_in_child=self.leave_to_parent)
        self.ranges = None
        self.thread = threading.get_ident()  # the ranges are this thread's, and autograd's for it
        self.give_way()
        ranges = torch.autograd.profiler.emit_nvtx(record_shapes=False)
        ranges.__enter__()
        self.ranges = ranges
        # Once in a process: an observer that is added within an operator takes its end for one of its own, and PyTorch 2.6 dies.
        with Silence(torch):
            torch._C._profiler._add_execution_trace_observer(self.operators)
            torch._C._profiler._enable_execution_trace_observer()
        self.modules.begin()
        self.begin()

    def path(self, name):
        return os.path.join(self.folder, f"{os.getpid()}.{name}")

    # --- Spans between two ends of an optimizer ------------------------------------------------------------------

    def begin(self):
        self.library.memest_record_watch_work(1)
        self.watches = True

    def end(self):
        span = self.path(f"{self.count}.work")
        self.count += 1
        self.library.memest_record_write_work(span.encode())
        self.library.memest_record_watch_work(0)
        self.watches = False
        return span

    def mark(self, name):
        if self.watches:
            self.library.memest_record_mark_work(name.encode())

    def after_optimizer(self, step):
        """What follows belongs to the next step, or to this one where it has another optimizer."""
        if not self.watches:
            return
        self.spans.setdefault(step, []).append(self.end())
        for span in self.spans.pop(step - 1, ()):
            os.remove(span)
        if not self.full:
            self.begin()

    def before_step(self, step):
        if step > WATCHED_STEPS:
            self.stop()

    def stop(self, ended=True):
        """Of a program without an optimizer all that it did is told, if it has `ended`."""
        if self.ranges is None:
            return
        self.modules.stop()
        if self.watches:
            span = self.end()
            if self.spans or not ended:
                os.remove(span)
            else:
                self.spans[0] = [span]
        with Silence(self.torch):
            self.torch._C._profiler._disable_execution_trace_observer()
            self.torch._C._profiler._remove_execution_trace_observer()
        ranges, self.ranges = self.ranges, None
        if threading.get_ident() == self.thread:
            ranges.__exit__(None, None, None)

    def stop_when_full(self):
        self.full = True
        with Silence(self.torch):
            self.torch._C._profiler._disable_execution_trace_observer()

    def leave_to_parent(self):
        """A worker's operators are none of this process's, and both would write one file."""
        self.library.memest_record_leave_work_to_parent()
        if self.ranges is not None:
            with Silence(self.torch):
                self.torch._C._profiler._disable_execution_trace_observer()
        self.modules.leave_to_parent()
        self.watches = False
        self.ranges = None

    def lines(self):
        """Of a recording; empty where no step came to its end."""
        if not self.spans:
            return []
        step = max(self.spans)
        asked = []
        for span in self.spans[step]:
            with open(span) as file:
                asked += file.read().splitlines()
            os.remove(span)
        operators = Operators(self.operators, {handle_of(line) for line in asked})
        lines = [f"# work: {'step' + str(step) if step else 'program'}"]
        for line in asked:
            lines += operators.told_in(line)
        os.remove(self.operators)
        if self.full:
            lines.append("# work: cut off")
        return lines

    # --- The program's own profiler ----------------------------------------------------------------------------

    def give_way(self):
        """PyTorch has one profiler at a time in a thread, and one execution trace in a process: the program's go first."""
        for module, name, in_process in (
            (self.torch.autograd.profiler, "_prepare_profiler", False),
            (self.torch.autograd.profiler, "_enable_profiler", False),
            (self.torch.profiler.profiler, "_add_execution_trace_observer", True),
        ):
            if hasattr(module, name):
                setattr(module, name, self.stopping_first(getattr(module, name), in_process))

    def stopping_first(self, call, in_process):
        def stops_and_calls(*arguments):
            if in_process or threading.get_ident() == self.thread:
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
