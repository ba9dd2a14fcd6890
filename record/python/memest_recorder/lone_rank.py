"""One process stands for one rank of many: whoever asks the store is answered as if all ranks were there."""

import os


def _bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


class ElsewhereError(RuntimeError):
    """What the program receives is another rank's."""


def install():
    import torch.distributed as dist

    if not dist.is_available():
        return

    class LoneStore(dist.Store):
        """What another rank would have set is 128 zeros, the size of NCCL's unique id; a count is every rank's."""

        def __init__(self, world):
            super().__init__()
            self.world = world
            self.values = {}

        def set(self, key, value):
            self.values[key] = _bytes(value)

        def get(self, key):
            return self.values.get(key, bytes(128))

        def add(self, key, amount):
            now = int(self.values.get(key, b"0")) + amount * self.world
            self.values[key] = str(now).encode()
            return now

        def check(self, keys):
            return all(key in self.values for key in keys)

        def wait(self, keys, timeout=None):
            pass

        def delete_key(self, key):
            return self.values.pop(key, None) is not None

        def num_keys(self):
            return len(self.values)

        def set_timeout(self, timeout):
            pass

        def clone(self):
            return self  # a thread of its own asks a clone: nothing here waits

        def compare_set(self, key, expected, desired):
            now = self.values.get(key, b"")
            if now in (b"", _bytes(expected)):
                self.values[key] = now = _bytes(desired)
            return now

        def append(self, key, value):
            self.values[key] = self.values.get(key, b"") + _bytes(value)

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return True

        def list_keys(self):
            return list(self.values)

    stores = []  # what C++ holds of a store does not keep its Python object, which answers

    def rendezvous(url, rank=-1, world_size=-1, **options):
        rank = rank if rank >= 0 else int(os.environ["RANK"])
        world = world_size if world_size > 0 else int(os.environ["WORLD_SIZE"])
        stores.append(LoneStore(world))
        yield stores[-1], rank, world

    c10d = dist.distributed_c10d
    receive = c10d._tensor_to_object
    broadcast = c10d.broadcast_object_list

    def tensor_to_object(*arguments, **options):
        try:
            return receive(*arguments, **options)
        except EOFError:
            raise ElsewhereError(
                "memest record: the program receives an object that another rank sends, and this process is the only one; "
                "record the rank that sends it (--rank 0, mostly), or start all ranks with torchrun"
            ) from None

    def broadcast_object_list(object_list, *arguments, **options):
        """Ranks mostly agree on what they have anyhow: an object that this one has is delivered to it."""
        own = list(object_list)
        try:
            return broadcast(object_list, *arguments, **options)
        except ElsewhereError:
            if None in own:
                raise
            object_list[:] = own

    c10d.rendezvous = rendezvous
    c10d._tensor_to_object = tensor_to_object
    c10d.broadcast_object_list = dist.broadcast_object_list = broadcast_object_list
