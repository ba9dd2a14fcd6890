import os

import torch
from blocks import model
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]) // 4, 4), mesh_dim_names=("data", "tensor"))
sharded = model().cuda()
for block in sharded:
    parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(block, mesh=mesh["data"])
fully_shard(sharded, mesh=mesh["data"])
optimizer = torch.optim.AdamW(sharded.parameters(), foreach=False)
for _ in range(3):
    sharded(torch.randn(64, 512, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.distributed.destroy_process_group()
