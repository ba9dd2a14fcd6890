import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM

path, steps, kept_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
late = len(sys.argv) > 4
stacks = "python"


def record():
    torch.cuda.memory._record_memory_history(context="alloc", stacks=stacks, max_entries=1_000_000)


def batch():
    return torch.zeros(2, 64, dtype=torch.long).to("cuda")


def train(model, optimizer):
    history = []
    for _ in range(steps):
        ids, labels = batch(), batch()
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        if kept_bytes:
            history.append(torch.empty(kept_bytes, dtype=torch.uint8, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if not late:
    record()
config = LlamaConfig(hidden_size=256, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=4,
                     intermediate_size=688, vocab_size=1000, tie_word_embeddings=False, max_position_embeddings=2048,
                     rms_norm_eps=1e-6)
torch.set_default_dtype(torch.bfloat16)
model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa").to("cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters())
if late:
    record()
train(model, optimizer)
torch.cuda.memory._dump_snapshot(path)
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
