"""One process with GPUs: its history of allocations on each, cut into steps and phases."""

import atexit
import ctypes
import os
import sys

from memest_recorder.interrupts import uninterrupted
from memest_recorder.modules import ModuleWatch
from memest_recorder.places import here
from memest_recorder.trace import Mark, Trace
from memest_recorder.work import WorkWatch

# A marker's key, and where torch.cuda.memory_stats_as_nested_dict() has it.
STATISTICS = {
    "allocated_bytes": "allocated_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
    "active_bytes": "active_bytes.all.current",
    "inactive_split_bytes": "inactive_split_bytes.all.current",
    "requested_bytes": "requested_bytes.all.current",
    "allocated_peak": "allocated_bytes.all.peak",
    "reserved_peak": "reserved_bytes.all.peak",
    "segments": "segment.all.current",
    "active": "active.all.current",
    "inactive_split": "inactive_split.all.current",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
}
COUNTS = ("allocation.all.allocated", "allocation.all.freed", "segment.all.allocated", "segment.all.freed", "num_ooms")

def statistic(stats, path):
    """None where this release has no such statistic."""
    for key in path.split("."):
        stats = stats.get(key) if stats is not None else None
    return stats


ReadListener = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int)


class Recorder:
    def __init__(self, torch):
        self.torch = torch
        self.pid = os.getpid()
        self.conf = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or "default"
        self.collects = "garbage_collection_threshold" in self.conf
        self.traces = {}  # by device, once something is allocated there
        self.marks = {}
        self.failed = 0  # requests that the device had no memory for, until the last drain
        self.reads = {}
        self.step = 1
        self.stepped = False  # whether this step's optimizer has run
        self.backwards = 0  # how deep within backward passes
        self.optimizers = 0  # how deep within optimizers, which may call each other
        self.ended = False
        self.steps = int(os.environ.get("MEMEST_RECORD_STEPS", "0"))
        self.begin_history()
        self.wrap()
        self.modules = ModuleWatch(torch, self.library, self.change_module)
        self.told_modules = {}  # by device, how many its trace has the names of
        self.ranges = None  # that had been entered when the running module last changed
        self.work = WorkWatch(torch, self.library, self.modules)
        atexit.register(self.end)
        self.leave = os._exit  # which some programs end with, and which calls nothing that is registered
        os._exit = self.end_and_leave

    def head(self, device):
        torch = self.torch
        total = torch.cuda.get_device_properties(device).total_memory
        context = os.environ.get("MEMEST_RECORD_CONTEXT", "0")
        lines = [f"# total: {total}", f"# context: {context}", f"# conf: {self.conf}", f"# torch: {torch.__version__}"]
        if "MEMEST_RECORD_GPU" in os.environ:
            lines.append(f"# gpu: {os.environ['MEMEST_RECORD_GPU']}")
        if "RANK" in os.environ:
            lines.append(f"# rank: {os.environ['RANK']} of {os.environ.get('WORLD_SIZE', '1')}")
        return lines

    # --- The allocator's history ---------------------------------------------------------------------------------

    def begin_history(self):
        self.torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=sys.maxsize)

    @uninterrupted
    def drain(self):
        """Writes what happened since the last time and forgets it."""
        snapshot = self.torch.cuda.memory._snapshot()
        self.torch.cuda.memory._record_memory_history(None)
        self.begin_history()
        failed = self.library.memest_record_failed_allocations()
        for device, history in enumerate(snapshot["device_traces"]):
            if not history and device not in self.traces:
                continue
            trace = self.trace_of(device)
            trace.note_pools([segment for segment in snapshot["segments"] if segment["device"] == device], history)
            trace.add(history, self.marks.get(device, []), failed == self.failed and not self.collects)
            trace.write([f"# device peak: {self.library.memest_record_device_peak(device)}"])
        self.failed = failed
        self.marks = {}

    def trace_of(self, device):
        if device not in self.traces:
            path = os.path.join(os.environ["MEMEST_RECORD_FOLDER"], f"{self.pid}.{device}.trace")
            self.traces[device] = Trace(path, self.head(device))
        return self.traces[device]

    def counted(self):
        """Of each device on which anything was allocated its number, COUNTS and all statistics."""
        for device in range(self.torch.cuda.device_count()):
            stats = self.torch.cuda.memory_stats_as_nested_dict(device)
            counts = [statistic(stats, path) or 0 for path in COUNTS]
            if counts[0]:
                yield device, counts, stats

    def mark(self, letter):
        """`letter` is an event of a trace, or "= NAME", which the statistics follow."""
        for device, counts, stats in self.counted():
            line = letter
            if letter.startswith("="):
                values = {key: statistic(stats, path) for key, path in STATISTICS.items()}
                line += "".join(f" {key}={value}" for key, value in values.items() if value is not None)
            self.add_mark(device, Mark(counts, [line]))

    def add_mark(self, device, mark):
        """Of modules between which nothing is allocated the last one counts."""
        marks = self.marks.setdefault(device, [])
        if marks and marks[-1].counts == mark.counts and marks[-1].lines[-1][0] == mark.lines[-1][0] == ">":
            marks[-1].lines = [*marks[-1].lines[:-1], *mark.lines]
        else:
            marks.append(mark)

    # --- The module that runs ------------------------------------------------------------------------------------

    def change_module(self, number):
        """What is allocated from here on is made in that module's forward. Operators allocate: where none was entered since the last
        change nothing was, and the statistics, which take their time, are not asked for."""
        if self.backwards > 0:
            return
        ranges = self.library.memest_record_entered_ranges()
        if ranges != self.ranges:
            self.ranges = ranges
            self.counts = {device: counts for device, counts, _ in self.counted()}
        for device, counts in self.counts.items():
            self.add_mark(device, Mark(counts, [*self.modules_to_tell(device), f"> {number}"]))

    def modules_to_tell(self, device):
        """The lines of modules that the device's trace does not have yet."""
        told = self.told_modules.get(device, 0)
        known = self.modules.known
        self.told_modules[device] = len(known)
        return [f"n {told + i + 1} {module}" for i, module in enumerate(known[told:])]

    # --- The program's phases -----------------------------------------------------------------------------------

    def end_phase(self, name):
        self.mark(f"= step{self.step}.{name}")
        self.work.mark(f"step{self.step}.{name}")

    def begin_step(self):
        """A step begins with what follows an optimizer: its end is known when the next backward or optimizer comes."""
        if not self.stepped:
            return
        self.stepped = False
        self.step += 1
        self.work.before_step(self.step)

    def before_backward(self):
        self.backwards += 1
        if self.backwards == 1:
            self.stop_behind_last_step()
            self.begin_step()
            self.end_phase("forward")

    def after_backward(self):
        self.backwards -= 1
        if self.backwards == 0:
            self.end_phase("backward")

    def before_optimizer(self, *_):
        self.optimizers += 1

    def after_optimizer(self, *_):
        self.optimizers -= 1
        if self.optimizers == 0:
            self.end_phase("optimizer")
            self.stepped = True
            self.work.after_optimizer(self.step)
            self.modules.leave_all()
            self.drain()

    def stop_behind_last_step(self):
        """Several optimizers may step in a step: it is over when the next backward begins."""
        if self.steps and self.stepped and self.step >= self.steps:
            self.close("# stopped: after the steps asked for")
            sys.stdout.flush()
            sys.stderr.flush()
            self.leave(0)

    def wrap(self):
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        torch = self.torch
        run_backward = torch.autograd._engine_run_backward

        def engine_run_backward(*arguments, **options):
            self.before_backward()
            try:
                return run_backward(*arguments, **options)
            finally:
                self.after_backward()

        torch.autograd._engine_run_backward = engine_run_backward
        register_optimizer_step_pre_hook(self.before_optimizer)
        register_optimizer_step_post_hook(self.after_optimizer)
        self.wrap_call("_cuda_emptyCache", "e")
        self.wrap_call("_cuda_resetPeakMemoryStats", "r", of_peaks=True)
        self.listener = ReadListener(self.note_read)
        self.library = ctypes.CDLL(None)
        self.library.memest_record_device_peak.restype = ctypes.c_size_t
        self.library.memest_record_listen_to_reads(self.listener)

    def wrap_call(self, name, letter, of_peaks=False):
        call = getattr(self.torch._C, name)

        def wrapped(*arguments):
            if of_peaks:
                self.mark("= peaks")
            self.mark(letter)
            return call(*arguments)

        setattr(self.torch._C, name, wrapped)

    # --- What is read back ---------------------------------------------------------------------------------------

    @uninterrupted
    def note_read(self, size, first):
        key = (here(2), size, first)
        self.reads[key] = self.reads.get(key, 0) + 1

    # --- The end ---------------------------------------------------------------------------------------------------

    @uninterrupted
    def end(self):
        if self.ended or os.getpid() != self.pid:  # a fork of the process that records
            return
        self.begin_step()
        self.end_phase("unfinished")
        self.drain()
        self.close()

    def end_and_leave(self, code):
        self.end()
        self.leave(code)

    def close(self, *lines):
        self.ended = True
        atexit.unregister(self.end)
        self.library.memest_record_listen_to_reads(None)
        reads = [f"# read: {count} {size} {first} {place}" for (place, size, first), count in self.reads.items()]
        self.work.stop(ended=not hasattr(sys, "last_value"))  # of an exception that nobody caught
        first = next(iter(self.traces), None)
        own = [*reads, *self.modules_to_tell(first), *self.work.lines()]  # of the process: its first device tells them
        for trace in self.traces.values():
            trace.close([*lines, *own])
            own = []


def start(torch):
    Recorder(torch)
