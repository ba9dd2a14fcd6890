import os

import torch
import torch.distributed as dist
from blocks import model
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
part = model().cuda()
micro = torch.zeros(8, 512, device="cuda")
stage = PipelineStage(part, rank, world, torch.device("cuda"), input_args=(micro,), output_args=(micro,))
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(32, 512, device="cuda")
    if rank == 0:
        schedule.step(x)
    elif rank == world - 1:
        schedule.step(target=x, losses=[])
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
