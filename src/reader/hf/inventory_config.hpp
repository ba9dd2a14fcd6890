// Shared by the readers of encoders, encoder-decoders and vision models: they know parameters, not
// computation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "memest/spec/inventory.hpp"
#include "reader/hf/config_reader.hpp"
#include "reader/hf/families.hpp"

namespace memest::hf {

/// The head on top of the encoder.
enum class HeadPart : std::uint8_t {
  none,
  language_model,      ///< a transform, then logits over the vocabulary
  pretraining,         ///< the language model and a classifier of sentence pairs
  discriminator,       ///< one score a token (ELECTRA)
  classifier,          ///< one matrix to `num_labels`
  hidden_classifier,   ///< a square matrix, then one to `num_labels`
  question_answering,  ///< one matrix to `num_labels`
  one_score,           ///< one matrix to 1 (multiple choice)
  hidden_one_score     ///< a square matrix, then one to 1
};

struct HeadRow {
  std::string_view suffix;  ///< of the class's name
  HeadPart part = HeadPart::none;
  bool pooler = false;
};

/// The row whose suffix ends the class's name, the first row where `architectures` is missing. An
/// error and the first row where none does.
const HeadRow& choose_head(ConfigReader& config, std::span<const HeadRow> rows);

/// An error where the hidden size is not a whole number of heads.
void check_heads(ConfigReader& config, Keys keys, std::int64_t hidden, std::int64_t heads);

/// Names of the parts of one transformer layer with separate projections, and which of them have
/// biases.
struct LayerNames {
  std::string_view q;
  std::string_view k;
  std::string_view v;
  std::string_view output;
  std::string_view first_norm;
  std::string_view up;
  std::string_view down;
  std::string_view second_norm;
};

struct LayerSizes {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t layers = 0;
};

/// `sizes.layers` layers: four projections, two matrices, two LayerNorms, all with biases. Names
/// get `prefix` before them.
void write_layers(InventoryBuilder& inventory, const std::string& prefix, const LayerNames& names,
                  const LayerSizes& sizes);

/// A parameter that is neither matrix, norm, bias nor looked-up table.
void write_other(InventoryBuilder& inventory, std::string name, std::vector<std::int64_t> shape,
                 std::int64_t count = 1);

/// A contraction's weight of any shape (convolutions).
void write_kernel(InventoryBuilder& inventory, const std::string& name,
                  std::vector<std::int64_t> shape, std::int64_t count = 1);

/// A bias of `size`.
void write_bias(InventoryBuilder& inventory, const std::string& name, std::int64_t size,
                std::int64_t count = 1);

/// The token table; the output head as well where `output_head`.
void write_token_table(InventoryBuilder& inventory, const std::string& name,
                       std::vector<std::int64_t> shape, bool output_head);

}  // namespace memest::hf
