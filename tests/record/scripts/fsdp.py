import os
import sys

import torch
import torch.distributed as dist
from blocks import Block, model
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
if sys.argv[1] == "1":
    sharded = FullyShardedDataParallel(model(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.cuda.current_device(), sync_module_states=True)
else:
    sharded = model().cuda()
    for block in sharded:
        fully_shard(block)
    fully_shard(sharded)
optimizer = torch.optim.AdamW(sharded.parameters(), foreach=True)
for _ in range(3):
    sharded(torch.randn(64, 512, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
