"""A step of products, attention and convolutions, whose FLOPs PyTorch's own counter tells behind the steps that are recorded."""

import torch
from torch.utils.flop_counter import FlopCounterMode


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 128, 8, stride=8)
        self.mix = torch.nn.Conv2d(128, 128, 3, padding=1)
        self.qkv = torch.nn.Linear(128, 3 * 128)
        self.up = torch.nn.Linear(128, 512, bias=False)
        self.down = torch.nn.Linear(512, 128)

    def forward(self, images):
        x = self.mix(self.patches(images)).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(2, (2, 64)).transpose(1, 2) for part in self.qkv(x).split(128, dim=2))
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        scores = torch.bmm(x, x.transpose(1, 2)).softmax(-1)
        return self.down(torch.nn.functional.gelu(self.up(torch.bmm(scores, x))))


def step():
    net(images).float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


net = Net().bfloat16().cuda()
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
images = torch.randn(4, 3, 64, 64, dtype=torch.bfloat16, device="cuda")
for _ in range(2):
    step()
with FlopCounterMode(display=False) as counter:
    step()
print("flops", counter.get_total_flops())
