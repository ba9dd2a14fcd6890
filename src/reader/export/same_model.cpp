// Where two models differ to a program that makes them from their sizes.
#include <algorithm>

#include "reader/export/target.hpp"

namespace memest {
namespace {

struct ComparedPart {
  std::string_view noun;
  bool (*is_same)(const DecoderSpec& left, const DecoderSpec& right);
};

constexpr ComparedPart kParts[] = {
    {"vocabulary", [](const DecoderSpec& left,
                      const DecoderSpec& right) { return left.vocab_size == right.vocab_size; }},
    {"number of layers", [](const DecoderSpec& left,
                            const DecoderSpec& right) { return left.layers() == right.layers(); }},
    {"number of layers of multi-token prediction",
     [](const DecoderSpec& left, const DecoderSpec& right) {
       return left.mtp_layers == right.mtp_layers;
     }},
    {"width",
     [](const DecoderSpec& left, const DecoderSpec& right) {
       return left.hidden_size == right.hidden_size && left.embedding_size == right.embedding_size;
     }},
    {"attention", [](const DecoderSpec& left,
                     const DecoderSpec& right) { return left.attention == right.attention; }},
    {"feed-forward or window of a layer",
     [](const DecoderSpec& left, const DecoderSpec& right) {
       return left.kinds == right.kinds && left.order == right.order;
     }},
    {"position of tokens",
     [](const DecoderSpec& left, const DecoderSpec& right) {
       return left.position == right.position;
     }},
    {"norm",
     [](const DecoderSpec& left, const DecoderSpec& right) {
       return left.norm == right.norm && left.layout == right.layout &&
              left.final_norm == right.final_norm && left.embedding_norm == right.embedding_norm;
     }},
    {"tie of embedding and head",
     [](const DecoderSpec& left, const DecoderSpec& right) {
       return left.tied_embeddings == right.tied_embeddings;
     }},
    {"dropout", [](const DecoderSpec& left,
                   const DecoderSpec& right) { return left.dropout == right.dropout; }},
};

/// The model without what decides neither parameters nor computation.
DecoderSpec in_one_form(DecoderSpec model) {
  model.max_positions = 0;
  model.buffers.clear();
  if (auto* rotary = std::get_if<RotaryPosition>(&model.position)) rotary->tables = 1;
  return model;
}

}  // namespace

std::string_view differing_part(const ModelSpec& left, const ModelSpec& right) {
  const auto* one = std::get_if<DecoderSpec>(&left.architecture);
  const auto* other = std::get_if<DecoderSpec>(&right.architecture);
  if (one == nullptr || other == nullptr) return "kind";
  const DecoderSpec first = in_one_form(*one);
  const DecoderSpec second = in_one_form(*other);
  const auto* const part = std::ranges::find_if(
      kParts, [&](const ComparedPart& row) { return !row.is_same(first, second); });
  if (part != std::end(kParts)) return part->noun;
  return first == second ? std::string_view() : "constant of a sum or of the logits";
}

}  // namespace memest
