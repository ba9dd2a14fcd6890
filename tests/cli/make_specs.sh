#!/usr/bin/env bash
# make_specs.sh FOLDER COUNT: a repository of COUNT specs, as a team has them: a dozen models in variations of GPU, micro-batch,
# sharding and recompute, one GPU and nodes of eight.
set -euo pipefail
folder=$1 count=$2

models=(gpt2 gpt2-medium gpt2-large opt-1.3b pythia-1.4b llama-3.2-1b llama-3.2-3b mistral-7b-v0.1 llama-3-8b olmo-2-7b pythia-410m phi-2)
gpus=(h100-sxm-80gb a100-sxm-80gb h200-sxm-141gb l40s b200-sxm-180gb)
layouts=('{}' '{data: 8, zero: 1}' '{data: 8, zero: 2}' '{data: 8, fsdp: {version: 2}}')
counts=(1 8 8 8)
recomputes=(none full)

mkdir -p "$folder"
for ((i = 0; i < count; ++i)); do
  layout=$((i / 12 % 4))
  cat >"$folder/spec-$(printf %04d "$i").yaml" <<SPEC
model: ${models[i % 12]}
training:
  seq_len: 512
  micro_batch: $((i / 48 % 4 + 1))
  gradient_accumulation: 2
  precision: amp-bf16
  optimizer: adamw
  recompute: ${recomputes[i / 24 % 2]}
parallelism: ${layouts[layout]}
hardware: {gpu: ${gpus[i % 5]}, count: ${counts[layout]}}
budget: {memory: 2 TiB, step_time: 1 h}
SPEC
done
