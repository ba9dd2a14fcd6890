import importlib.util
import os

assert importlib.util.find_spec("torch")

import torch  # noqa: E402

x = torch.zeros(1 << 20, device="cuda", requires_grad=True)
x.sum().backward()
os._exit(0)
