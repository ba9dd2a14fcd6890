"""Writes parameters.jsonl.gz: what transformers builds from configs, one line each.

    pip install torch transformers==5.17.0
    python make_parameters.py | gzip -9n > parameters.jsonl.gz

Every model is built on PyTorch's meta device, so nothing is allocated. A line holds the config as a user would write it, the
class that was built, and its counts: `total` and `trainable` parameters (tied ones once), `embedding` (elements of the input
embedding), `buffer_bytes`, `tensors` (how many parameters) and `shapes`: how many parameters of each name and shape, the name
without the layer index, for decoders; of each shape for the rest.
"""

import collections
import json
import re
import sys

import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto

from parameter_variants import DECODERS, VARIANTS

MASKED = {"bert", "modernbert", "roberta", "xlm-roberta", "distilbert", "electra", "deberta-v2", "albert", "mpnet", "camembert"}
PAIRS = {"t5", "mt5", "bart", "mbart", "pegasus", "marian"}


def class_of(model_type, config):
    """The class a config stands for: the one it names, else the one with the type's usual head."""
    if config.get("architectures"):
        return getattr(transformers, config["architectures"][0])
    if model_type in MASKED:
        names = [modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES]
    elif model_type in PAIRS:
        names = [modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES]
    elif model_type == "whisper":
        names = [modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES]
    elif model_type == "wav2vec2":
        names = [modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES]
    elif model_type in ("clip", "siglip"):
        names = [modeling_auto.MODEL_MAPPING_NAMES]
    else:
        names = [
            modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
            modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
            modeling_auto.MODEL_MAPPING_NAMES,
        ]
    for mapping in names:
        if model_type in mapping:
            name = mapping[model_type]
            return getattr(transformers, name if isinstance(name, str) else name[0])
    raise KeyError(model_type)


def build(config):
    model_type = config["model_type"]
    built = configuration_auto.CONFIG_MAPPING[model_type].from_dict(json.loads(json.dumps(config)))
    with torch.device("meta"):
        model = class_of(model_type, config)(built)
    model.tie_weights()
    return model


def short_name(name):
    layer = re.match(r".*?\.\d+\.(.*)", name)
    if layer:
        return re.sub(r"\.\d+(?=\.)", "", layer.group(1))
    return re.sub(r"^(model\.decoder|model|transformer|gpt_neox)\.", "", name)


def record(name, config):
    model = build(config)
    shapes = collections.Counter()
    named = config["model_type"] in DECODERS and "architectures" not in config
    for parameter_name, parameter in model.named_parameters():
        shape = "x".join(str(size) for size in parameter.shape)
        shapes[f"{short_name(parameter_name)} {shape}" if named else shape] += 1
    parameters = list(model.parameters())
    try:
        embedding = getattr(model, "text_model", model).get_input_embeddings().weight
        embedding = embedding.numel() if embedding.dim() == 2 else 0
    except (NotImplementedError, AttributeError):
        embedding = 0
    return {
        "name": name,
        "config": config,
        "class": type(model).__name__,
        "total": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "embedding": embedding,
        "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers()),
        "tensors": len(parameters),
        "shapes": dict(sorted(shapes.items())),
    }


def main():
    transformers.logging.set_verbosity_error()
    only = set(sys.argv[1:])
    counts = collections.Counter()
    for config in VARIANTS:
        model_type = config["model_type"]
        counts[model_type] += 1
        if only and model_type not in only:
            continue
        name = f"{model_type}-{counts[model_type]}"
        try:
            print(json.dumps(record(name, config), separators=(",", ":")))
        except Exception as problem:  # a variant that the class refuses has no truth
            print(f"{name} {config}: {type(problem).__name__}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
