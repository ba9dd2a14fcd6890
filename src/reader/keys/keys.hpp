// Every key of a spec, described once: its shape, its default, its meaning, and whether its
// machinery is there. The reader's checks, the JSON schema and the starter spec are all written
// from this table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace memest {

enum class Form : std::uint8_t {
  none,      ///< fills an unused alternative
  flag,      ///< true or false
  count,     ///< a whole number within bounds
  number,    ///< a real number within bounds
  quantity,  ///< a number with its unit
  choice,    ///< one of a few words
  catalog,   ///< the name of a file in a folder of configs/
  target,    ///< a GPU's: "9.0", "gfx942"
  text,      ///< any text
  gpu,       ///< a GPU's slug or alias, in letters of either case, or the path of its file
  table,     ///< a mapping with known keys
  document,  ///< a mapping that another reader knows (a Hugging Face config)
  list       ///< a sequence of one shape
};

enum class Dimension : std::uint8_t {
  size,
  duration,
  flops,
  money,
  price,
  share,
  flop_rate,
  byte_rate,
  clock,
  power
};

/// A word of a choice. `later` names what is not available yet, as a noun; empty where it is.
struct Word {
  std::string_view text;
  std::string_view later = {};
};

struct Key;
struct KeyShape;

/// The alternatives of a value.
using Shapes = std::array<KeyShape, 4>;

/// One way to write a value.
struct KeyShape {
  Form form = Form::none;
  std::int64_t least = 0;  ///< of a count
  std::int64_t most = 0;
  double low = 0;  ///< of a number
  double high = 0;
  Dimension dimension = Dimension::size;
  std::string_view folder = {};  ///< of a catalog
  std::span<const Word> words = {};
  std::span<const Key> keys = {};
  const Shapes* item = nullptr;  ///< of a list
  bool one_key = false;          ///< of a table: exactly one of its keys stands there
  bool bare = false;  ///< of such a table: a key that takes {} may stand as a word, without it
};

struct Key {
  std::string_view name;
  Shapes shapes;                   ///< alternatives
  std::string_view fallback = {};  ///< the default as written; empty where there is none to write
  std::string_view doc;
  std::string_view later =
      {};  ///< what is not available yet, as a noun; any value but the default is refused
  bool required = false;
  std::string_view usual = {};  ///< of a required key, what most write: told where it is missing
  bool decides = false;  ///< the others depend on it: where it is refused, they are not looked at
};

// Bounds: far above every real model, and low enough that a product of two stays within 64 bits.
inline constexpr std::int64_t kMaxCount = 1'000'000'000;
inline constexpr std::int64_t kMaxLayers = 100'000;
inline constexpr std::int64_t kMaxRanks = 1'000'000;

constexpr KeyShape flag() { return {.form = Form::flag}; }
constexpr KeyShape count(std::int64_t least = 1, std::int64_t most = kMaxCount) {
  return {.form = Form::count, .least = least, .most = most};
}
constexpr KeyShape number(double low, double high) {
  return {.form = Form::number, .low = low, .high = high};
}
constexpr KeyShape quantity(Dimension dimension) {
  return {.form = Form::quantity, .dimension = dimension};
}
constexpr KeyShape choice(std::span<const Word> words) {
  return {.form = Form::choice, .words = words};
}
constexpr KeyShape catalog(std::string_view folder) {
  return {.form = Form::catalog, .folder = folder};
}
constexpr KeyShape target() { return {.form = Form::target}; }
constexpr KeyShape gpu_name() { return {.form = Form::gpu}; }
constexpr KeyShape text() { return {.form = Form::text}; }
constexpr KeyShape table(std::span<const Key> keys) { return {.form = Form::table, .keys = keys}; }
/// A table of alternatives: `{every: 2}` or `{full: {...}}`, never both.
constexpr KeyShape one_of(std::span<const Key> keys) {
  return {.form = Form::table, .keys = keys, .one_key = true};
}
/// As one_of(), where `relu` stands for `{relu: {}}`.
constexpr KeyShape one_of_or_word(std::span<const Key> keys) {
  return {.form = Form::table, .keys = keys, .one_key = true, .bare = true};
}
/// Whether `{}` is a value of the key.
bool takes_empty_table(const Shapes& shapes);
constexpr KeyShape document() { return {.form = Form::document}; }
constexpr KeyShape list(const Shapes& item) { return {.form = Form::list, .item = &item}; }

std::span<const Key> spec_keys();           ///< of a spec file
std::span<const Key> recorded_spec_keys();  ///< of a spec that names a recording
std::span<const Key> parallelism_keys();
std::span<const Key> hardware_keys();
std::span<const Key> recorded_hardware_keys();  ///< of one process: no number of GPUs, no host
std::span<const Key> budget_keys();
std::span<const Key> inference_keys();
std::span<const Key> allocator_keys();
std::span<const Key> training_keys();
std::span<const Key> data_keys();  ///< of `training.data`
std::span<const Key> compression_keys();
std::span<const Key> decoder_keys();     ///< of `model`, as a family
std::span<const Key> hf_keys();          ///< of `model`, as a Hugging Face config
std::span<const Key> layer_list_keys();  ///< of `model`, as a list of layers
std::span<const Key> implementation_keys();
std::span<const Word> framework_words();  ///< of `implementation`, where it is a name

// Keys of the files in configs/.
std::span<const Key> gpu_file_keys();
std::span<const Key> recipe_file_keys();
std::span<const Key> optimizer_file_keys();
std::span<const Key> price_file_keys();
std::span<const Key> ceiling_file_keys();
std::span<const Key> residual_file_keys();
std::span<const Key> need_file_keys();

/// Version of a profile's form; another one is refused.
inline constexpr std::int64_t kProfileFormat = 1;
std::span<const Key> profile_keys();

// Keys of recorded runs, and of the lines that predictions of them are held to.
std::span<const Key> record_keys();    ///< of a record
std::span<const Key> measured_keys();  ///< of its `measured`, and of each of its ranks
std::span<const Key> accuracy_file_keys();

/// Words of the decoder's `family`; the others are told apart before any key is checked.
std::span<const Word> family_words();

}  // namespace memest
