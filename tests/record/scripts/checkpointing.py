import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(4096, 1024)) for _ in range(8)).cuda()


def policy(context, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op == torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE


for kind in ("full", "reentrant", "selective", "offload"):
    x = torch.randn(64, 1024, device="cuda", requires_grad=True)
    if kind == "offload":
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            for block in blocks:
                x = block(x)
    for block in blocks:
        if kind == "selective":
            x = checkpoint(block, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy))
        elif kind != "offload":
            x = checkpoint(block, x, use_reentrant=kind == "reentrant")
    x.sum().backward()
