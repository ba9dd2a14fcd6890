// `quant_storage`, a key of `compression.quantize` and of `training.adapter.qlora`.
#pragma once

#include "reader/keys/keys.hpp"

namespace memest {

inline constexpr Word kCodeStorages[] = {{"uint8"}, {"bf16"}, {"fp16"}, {"fp32"}};
inline constexpr Key kCodeStorage = {
    .name = "quant_storage",
    .shapes = {choice(kCodeStorages)},
    .fallback = "uint8",
    .doc =
        "The type that codes of nf4 and fp4 are packed in (bnb_4bit_quant_storage): FSDP2 cuts "
        "them where it is no integer's."};

}  // namespace memest
