import os

import torch
import torch.distributed as dist
from blocks import model

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
parallel = torch.nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[rank], gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(parallel.parameters(), fused=True)
for step in range(3):
    loss = parallel(torch.randn(64, 512, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(loss.detach(), dist.ReduceOp.AVG)
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, f"step {step}")
    assert names == [f"step {step}"] * dist.get_world_size(), names
    dist.barrier()
dist.destroy_process_group()
