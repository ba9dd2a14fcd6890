# Rank 0 sends objects: one that every rank has, then one that the others do not have.
import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
shared = [{"seed": 7}, "run"]
dist.broadcast_object_list(shared, src=0)
assert shared == [{"seed": 7}, "run"], shared
layer = torch.nn.Linear(64, 64, device="cuda")
if sys.argv[1:] == ["alone"]:
    dist.broadcast_object_list([{"seed": 7} if dist.get_rank() == 0 else None], src=0)
dist.destroy_process_group()
