"""Programs whose batch and length (of images: their side) are given: `varied.py KIND BATCH LENGTH`."""

import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

KIND, BATCH, LENGTH = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
WIDTH, HEADS, VOCAB, LAYERS = 256, 4, 50304, 2


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False), nn.Dropout(0.1))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (y.view(b, s, HEADS, -1).transpose(1, 2) for y in self.qkv(self.norms[0](x)).split(WIDTH, dim=2))
        if self.attention == "eager":
            scores = (q @ k.transpose(-2, -1)).masked_fill(torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            y = F.dropout(scores.softmax(-1), 0.1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.attention == "causal")
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, WIDTH))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, attention="causal", checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(attention) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class Images(nn.Module):
    """A ViT whose patches are 16 x 16, averaged: with a class token attention would pad an odd number of rows."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 16, 16)
        self.places = nn.Parameter(torch.zeros(1, (LENGTH // 16) ** 2, WIDTH))
        self.blocks = nn.Sequential(*[Block("full") for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.blocks(x).mean(1)).square().mean()


class Bottleneck(nn.Module):
    """ResNet's block: two of them, the first with a stride, halve an image's side."""

    def __init__(self, width, to, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, to // 4, 1, bias=False), nn.BatchNorm2d(to // 4), nn.ReLU(inplace=True),
                                  nn.Conv2d(to // 4, to // 4, 3, stride, 1, bias=False), nn.BatchNorm2d(to // 4), nn.ReLU(inplace=True),
                                  nn.Conv2d(to // 4, to, 1, bias=False), nn.BatchNorm2d(to))
        self.skip = nn.Sequential(nn.Conv2d(width, to, 1, stride, bias=False), nn.BatchNorm2d(to))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x), inplace=True)


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
                         Bottleneck(64, 256, 1), Bottleneck(256, 512, 2), Bottleneck(512, 1024, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


def ids():
    return torch.randint(VOCAB, (BATCH, LENGTH)).cuda()


def images():
    return torch.randn(BATCH, 3, LENGTH, LENGTH).cuda()


def train(loss_of, parameters, steps=3, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(parameters)
    for _ in range(steps):
        loss_of().backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()


def transformer(attention="causal", checkpointed=False, **options):
    model = Model(attention, checkpointed).cuda()

    def loss():
        with torch.autocast("cuda", torch.bfloat16):
            return model(ids())

    parameters = list(model.parameters())
    train(loss, parameters, optimizer=torch.optim.AdamW(parameters, **options))


def accumulated():
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        for _ in range(4):
            (model(ids()) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()


def scaled():
    model, scaler = Model("eager").cuda(), torch.amp.GradScaler()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        with torch.autocast("cuda", torch.float16):
            loss = model(ids())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def sharded():
    from torch.distributed.fsdp import fully_shard

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    model = Model().cuda()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    train(lambda: model(ids()), list(model.parameters()))
    torch.distributed.destroy_process_group()


def replicated():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    model = nn.parallel.DistributedDataParallel(Model().cuda(), device_ids=[rank])

    def loss():
        time.sleep(0.3)  # NCCL's watchdog, a thread that looks ten times a second, lets go of the buckets that were sent
        return model(ids())

    train(loss, list(model.parameters()))
    torch.distributed.destroy_process_group()


def convolved():
    model = convolutions().cuda().to(memory_format=torch.channels_last)
    train(lambda: model(images()).square().mean(), list(model.parameters()), optimizer=torch.optim.SGD(model.parameters(), 0.1, 0.9))


def seen():
    model = Images().cuda()
    train(lambda: model(images()), list(model.parameters()))


def parting():
    """Something else happens from a size on."""
    model = Model().cuda()
    kept = [torch.empty(LENGTH, device="cuda") for _ in range(3 if BATCH * LENGTH > 2048 else 2)]
    train(lambda: model(ids()), list(model.parameters()))
    return kept


def rounded():
    """A size that is no polynomial: the next power of two."""
    return torch.empty(1 << (BATCH * LENGTH).bit_length(), device="cuda")


KINDS = {
    "nanogpt": transformer,
    "foreach": lambda: transformer(foreach=True),
    "fused": lambda: transformer(fused=True),
    "eager": lambda: transformer("eager"),
    "checkpointing": lambda: transformer(checkpointed=True),
    "accumulation": accumulated,
    "scaler": scaled,
    "ddp": replicated,
    "fsdp2": sharded,
    "resnet": convolved,
    "vit": seen,
    "parting": parting,
    "rounded": rounded,
}
torch.manual_seed(0)
KINDS[KIND]()
