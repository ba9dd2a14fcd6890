"""Watches PyTorch in a program that `memest record` runs: every allocation with the line that asked for it, the phases of each step,
and what is read back from the device. The program need not know of it.

The environment names the folder that a process writes its trace into (MEMEST_RECORD_FOLDER); without it nothing is done.
"""

import importlib.abc
import importlib.util
import os
import sys


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` with the module `name` once it has been imported."""

    def __init__(self, name, then):
        self.name = name
        self.then = then
        self.asking = False  # the finders behind this one

    def find_spec(self, name, path, target=None):
        """Stays until the import has come: many libraries only ask whether torch is there."""
        if name != self.name or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        if spec is None or spec.loader is None:  # not there, or a folder of that name alone
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    if os.environ.get("MEMEST_RECORD_FOLDER"):
        sys.meta_path.insert(0, AfterImport("torch", watch))


def watch(torch):
    from memest_recorder import lone_rank, recorder

    if os.environ.get("MEMEST_RECORD_LONE_RANK"):
        lone_rank.install()
    torch.cuda._lazy_call(lambda: recorder.start(torch))
