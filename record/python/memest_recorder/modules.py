"""Which module's forward runs: what is allocated in it, and whose kernels are whose.

The interpreter tells a profiler of every call, and the null device compares its code with that of Module._call_impl. Nothing of the
program is wrapped: no hook is on its modules, and torch.compile finds them as they were.
"""

import ctypes
import sys
import weakref

CallListener = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_int)


class ModuleWatch:
    """`changed` is called with the number of the module, counted from 1, whose forward the thread that began runs from now on; 0 where
    there is none."""

    def __init__(self, torch, library, changed):
        self.code = torch.nn.Module._call_impl.__code__
        self.library = library
        library.memest_record_entered_ranges.restype = ctypes.c_uint64
        library.memest_record_watch_calls.argtypes = [ctypes.c_void_p, CallListener]
        self.changed = changed
        self.listener = CallListener(self.told)
        self.running = []
        self.known = []  # the class and the name of module N + 1
        self.numbers = {}
        self.roots = {}  # by id, an outermost module and its parts' names
        self.kinds = {}  # how many of those are of a class
        self.has_model = False  # whether one of them had parts
        self.watches = False

    # --- The interpreter's calls -----------------------------------------------------------------------------------

    def begin(self):
        """A profiler of the program's goes first."""
        if sys.getprofile() is not None or not self.library.memest_record_watch_calls(id(self.code), self.listener):
            return
        ctypes.pythonapi.PyEval_SetProfile(ctypes.cast(self.library.memest_record_profile, ctypes.c_void_p), None)
        self.watches = True

    def stop(self):
        self.leave_to_parent()
        self.leave_all()

    def leave_to_parent(self):
        """Of a process that was forked. What the program has set since then stays."""
        if self.watches and sys.getprofile() is None:
            ctypes.pythonapi.PyEval_SetProfile(None, None)
        self.watches = False

    def told(self, frame, is_call):
        if not self.watches:
            return
        if is_call:
            self.enter(frame.f_locals["self"])
        elif self.running:  # else it was entered before anyone watched
            self.leave()

    def enter(self, module):
        self.running.append(self.number_of(module))
        self.library.memest_record_enter_module(self.running[-1])
        self.changed(self.running[-1])

    def leave(self):
        self.running.pop()
        self.library.memest_record_leave_module()
        self.changed(self.running[-1] if self.running else 0)

    def leave_all(self):
        while self.running:
            self.leave()

    # --- Names -----------------------------------------------------------------------------------------------------

    def number_of(self, module):
        if not self.running:
            self.names_of_parts = self.names_below(module)
        kind = type(module).__name__
        name = self.names_of_parts.get(id(module))
        if name is None:  # made while its caller runs, or called from one that does not have it
            name = f"{self.known[self.running[-1] - 1].split()[1]}.{kind}"
        told = f"{kind} {'_'.join(name.split())}"
        if told not in self.numbers:
            self.known.append(told)
            self.numbers[told] = len(self.known)
        return self.numbers[told]

    def names_below(self, root):
        """The parts' names in the outermost module that runs, as model.layers.0.mlp; its own is its class. Of several models the first
        one's parts have their names alone."""
        known, names = self.roots.get(id(root), (None, None))
        if known is not None and known() is root:
            return names
        kind = type(root).__name__
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        title = kind if self.kinds[kind] == 1 else f"{kind}#{self.kinds[kind]}"
        parts = [(name, part) for name, part in root.named_modules() if name]
        prefix = f"{title}." if self.has_model else ""
        self.has_model = self.has_model or bool(parts)
        names = {id(part): prefix + name for name, part in parts}
        names[id(root)] = title
        self.roots[id(root)] = (weakref.ref(root), names)
        return names
