import math
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h, self.ln_1, self.ln_2 = h, nn.LayerNorm(c, bias=False), nn.LayerNorm(c, bias=False)
        self.attn, self.proj = nn.Linear(c, 3 * c, bias=False), nn.Linear(c, c, bias=False)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c, bias=False), nn.GELU(), nn.Linear(4 * c, c, bias=False), nn.Dropout(0.1))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (y.view(b, t, self.h, c // self.h).transpose(1, 2) for y in self.attn(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab=50304, t=1024, layers=12, c=768):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, c), nn.Embedding(t, c)
        self.blocks = nn.ModuleList(Block(c, 12) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(c, bias=False), nn.Linear(c, vocab, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


model = GPT().to("cuda")
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest}], lr=6e-4, betas=(0.9, 0.95), fused=True)
scaler = torch.amp.GradScaler("cuda", enabled=False)
for step in range(3):
    start = time.time()
    for micro in range(2):
        x = torch.randint(50304, (4, 1024)).pin_memory().to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x, x) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    assert math.isfinite(loss.item()), "the loss is not finite"
    print(step, loss.item(), time.time() - start)
