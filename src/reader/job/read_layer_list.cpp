// `{layers: [...]}`: a plain list of layers, with blocks that repeat.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "memest/spec/layer_blocks.hpp"
#include "memest/units/int128.hpp"
#include "reader/job/layer_keys.hpp"
#include "reader/job/read_model.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// A sum over all different layers stands at every layer: so many of such sums, each a few
/// microseconds.
constexpr std::size_t kMostSums = 500'000;

/// Most layers within one block, written out; each is an operation or more.
constexpr std::size_t kMostInBlock = 10'000;
/// Most rounds of a dense block: each joins the results of all before.
constexpr std::int64_t kMostRounds = 128;
/// Most elements of one image.
constexpr std::int64_t kMostElements = 1'000'000'000'000;

bool has_parameters(const LayerList& list) {
  return std::any_of(list.blocks.begin(), list.blocks.end(), [](const LayerBlock& block) {
    return std::any_of(block.block.begin(), block.block.end(),
                       [](const PlainLayer& layer) { return memest::has_parameters(layer); });
  });
}

/// "64 channels of 56 x 56", "10 features".
std::string text_of(const Features& features) {
  if (!features.sides) return std::to_string(features.channels) + " features";
  return std::to_string(features.channels) + " channels of " +
         std::to_string(features.sides->height) + " x " + std::to_string(features.sides->width);
}

bool is_too_large(const Features& features) {
  if (!features.sides) return features.channels > kMostElements;
  const Int128 pixels = Int128{features.sides->height} * features.sides->width;
  return pixels > kMostElements || pixels * features.channels > kMostElements;
}

using Layers = std::vector<PlainLayer>;

class LayerListReader {
 public:
  LayerListReader(const Features& image, Diagnostics& diagnostics)
      : now_(image), reads_images_(image.sides.has_value()), diagnostics_(diagnostics) {}

  std::vector<LayerBlock> read(const Value& layers) {
    std::vector<LayerBlock> blocks;
    for (const Value& entry : layers.items) {
      LayerBlock block;
      written_ = 0;
      if (entry.find("block") == nullptr) {
        append(entry, block.block);
      } else {
        block.repeat = as_count(entry.find("repeat")).value_or(1);
        append_block(entry, block.block);
      }
      blocks.push_back(std::move(block));
    }
    return blocks;
  }

  [[nodiscard]] const Features& given() const { return now_; }

 private:
  /// A layer, or a block within a block as many times as it says.
  void append(const Value& entry, Layers& layers) {
    if (entry.kind == ValueKind::scalar) {
      append_layer({entry.text, entry.span, {}}, layers);
      return;
    }
    if (entry.find("block") == nullptr) {
      if (entry.members.size() == 1) append_layer(entry.members.front(), layers);
      return;
    }
    const std::size_t start = layers.size();
    const std::size_t before = written_;
    append_block(entry, layers);
    const std::size_t in_one = written_ - before;
    const std::int64_t repeat = as_count(entry.find("repeat")).value_or(1);
    const Layers once(layers.begin() + static_cast<std::ptrdiff_t>(start), layers.end());
    for (std::int64_t i = 1; i < repeat && !too_many_; ++i) {
      layers.insert(layers.end(), once.begin(), once.end());
      written_ += std::max<std::size_t>(in_one, 1);
      if (written_ > kMostInBlock) report_too_many(entry.find("repeat")->span);
    }
  }

  void append_block(const Value& entry, Layers& layers) {
    const Value& block = *entry.find("block");
    const Features before = now_;
    if (block.items.empty()) {
      diagnostics_.push_back(error_at(block.span, "a block has at least one layer"));
    }
    first_widths_.push_back(0);
    for (const Value& inner : block.items) append(inner, layers);
    const std::int64_t first = first_widths_.back();
    first_widths_.pop_back();
    note_input(first);
    const std::int64_t taken = before.sides ? before.channels : first;
    pass_repeats(entry, {taken, before.sides});
  }

  /// The second round of a block takes what its first gave.
  void pass_repeats(const Value& entry, const Features& taken) {
    if (as_count(entry.find("repeat")).value_or(1) < 2) return;
    if (!taken.sides && (taken.channels == 0 || now_.channels == 0)) return;
    if (taken == now_) return;
    diagnostics_.push_back(
        error_at(entry.find("repeat")->span,
                 "the block takes " + text_of(taken) + " and gives " +
                     (now_.sides ? text_of(now_) : std::to_string(now_.channels)) +
                     ", so it cannot repeat"));
  }

  void append_layer(const Member& member, Layers& layers) {
    if (++written_ > kMostInBlock && !too_many_) report_too_many(member.key_span);
    if (too_many_) return;
    if (member.key == "residual") return layers.emplace_back(residual(member)), void();
    if (member.key == "concat") return layers.emplace_back(concat(member)), void();
    if (member.key == "dense") return layers.emplace_back(dense(member)), void();
    PlainLayer layer = leaf_layer(member.key, member.value, now_);
    if (passes(member, layer)) layers.push_back(std::move(layer));
  }

  /// Whether the layer takes what comes; moves behind it.
  bool passes(const Member& member, const PlainLayer& layer) {
    if (!takes(member, input_of(layer))) return false;
    if (std::string fault = fault_of(layer); !fault.empty()) {
      diagnostics_.push_back(error_at(member.key_span, std::move(fault)));
      return false;
    }
    const std::int64_t width = width_taken(layer);
    if (width == 0 && now_.channels == 0 && member.key == "linear") {
      diagnostics_.push_back(error_at(member.key_span, "missing key 'in'"));
    }
    if (width > 0 && now_.channels > 0 && width != now_.channels) {
      const std::string noun = now_.sides ? " channels" : " features";
      diagnostics_.push_back(
          error_at(member.key_span, "the layer before gives " + std::to_string(now_.channels) +
                                        noun + ", this one takes " + std::to_string(width)));
    }
    note_input(width);
    return move_behind(member, layer);
  }

  bool takes(const Member& member, LayerInput input) {
    const bool images = now_.sides.has_value();
    if (input == LayerInput::either || images == (input == LayerInput::images)) return true;
    const std::string_view hint =
        images ? "images become rows behind a flatten"
        : reads_images_
            ? "behind a flatten there are no images"
            : "write what the model reads: 'image: {channels: 3, height: 224, width: 224}'";
    diagnostics_.push_back(
        error_at(member.key_span,
                 quote(member.key) + (images ? " takes rows of features, not images"
                                             : " takes images, not rows of features"),
                 std::string(hint)));
    return false;
  }

  bool move_behind(const Member& member, const PlainLayer& layer) {
    const std::optional<Features> after = features_after(layer, now_);
    if (!after) {
      diagnostics_.push_back(error_at(
          member.key_span, "an image of " + std::to_string(now_.sides->height) + " x " +
                               std::to_string(now_.sides->width) + " is too small for it"));
      return false;
    }
    if (is_too_large(*after)) {
      diagnostics_.push_back(
          error_at(member.key_span, "what it gives has more than 10^12 elements a sample"));
      return false;
    }
    const std::int64_t before = now_.channels;
    now_ = *after;
    // A softmax or a norm of rows leaves a width that is not known as it is.
    if (now_.channels == 0) now_.channels = std::max(before, width_taken(layer));
    return true;
  }

  Layers way(const Value* layers) {
    Layers read;
    if (layers == nullptr) return read;
    for (const Value& entry : layers->items) append(entry, read);
    return read;
  }

  ResidualLayer residual(const Member& member) {
    ResidualLayer layer;
    const Features before = now_;
    layer.body = way(member.value.find("body"));
    const Features sum = std::exchange(now_, before);
    layer.shortcut = way(member.value.find("shortcut"));
    layer.in_place = as_flag(member.value.find("in_place")).value_or(false);
    if (layer.body.empty()) {
      diagnostics_.push_back(error_at(member.key_span, "the body has at least one layer"));
    } else if (sum != now_ && (sum.sides || now_.channels > 0)) {
      diagnostics_.push_back(error_at(
          member.key_span, "the body gives " + text_of(sum) + ", the shortcut " + text_of(now_)));
    }
    now_ = sum;
    return layer;
  }

  ConcatLayer concat(const Member& member) {
    ConcatLayer layer;
    if (!takes(member, LayerInput::images)) return layer;
    const Features before = now_;
    Features joined{0, before.sides};
    const Value* const branches = member.value.find("branches");
    if (branches == nullptr) return layer;
    for (const Value& branch : branches->items) {
      now_ = before;
      layer.branches.push_back(way(&branch));
      join(member, joined, layer.branches.size() == 1);
    }
    if (layer.branches.size() < 2) {
      diagnostics_.push_back(error_at(member.key_span, "a concatenation has two branches or more"));
    }
    now_ = joined;
    layer.then = way(member.value.find("then"));
    return layer;
  }

  /// Adds the channels that are there now to `joined`.
  void join(const Member& member, Features& joined, bool is_first) {
    if (is_first) joined.sides = now_.sides;
    if (!now_.sides || now_.sides != joined.sides) {
      diagnostics_.push_back(
          error_at(member.key_span, "a branch gives " + text_of(now_) + " beside images of " +
                                        text_of({joined.channels, joined.sides})));
      return;
    }
    joined.channels += now_.channels;
  }

  DenseLayer dense(const Member& member) {
    DenseLayer layer;
    if (!takes(member, LayerInput::images)) return layer;
    Features joined = now_;
    const Value* const repeat = member.value.find("repeat");
    const std::int64_t rounds = as_count(repeat).value_or(0);
    if (rounds > kMostRounds) {
      diagnostics_.push_back(error_at(
          repeat->span, "a dense block of more than " + std::to_string(kMostRounds) + " rounds"));
      return layer;
    }
    const std::size_t before = diagnostics_.size();
    for (std::int64_t i = 0; i < rounds && diagnostics_.size() == before; ++i) {
      now_ = joined;
      layer.rounds.push_back(way(member.value.find("block")));
      join(member, joined, false);
    }
    now_ = joined;
    return layer;
  }

  /// The first layer with a width decides what the blocks around it take.
  void note_input(std::int64_t width) {
    for (std::int64_t& first : first_widths_) {
      if (first == 0) first = width;
    }
  }

  void report_too_many(const SourceSpan& span) {
    too_many_ = true;
    diagnostics_.push_back(
        error_at(span, "a block of more than " + std::to_string(kMostInBlock) + " layers"));
  }

  Features now_;  ///< behind the layers so far
  bool reads_images_;
  Diagnostics& diagnostics_;
  std::vector<std::int64_t> first_widths_;  ///< of the open blocks, the outermost first
  std::size_t written_ = 0;                 ///< layers of the block so far
  bool too_many_ = false;
};

void check_sums(const std::vector<LayerBlock>& blocks, const SourceSpan& span,
                Diagnostics& diagnostics) {
  if (blocks.empty()) return;
  const std::size_t most = kMostSums / blocks.size();
  if (count_different(blocks, most) <= most) return;
  diagnostics.push_back(error_at(span,
                                 "a list of " + std::to_string(blocks.size()) +
                                     " layers with more than " + std::to_string(most) +
                                     " different ones",
                                 "write what comes again as {repeat: N, block: [...]}"));
}

Features image_of(const Value* image) {
  if (image == nullptr) return {};
  const auto count = [image](std::string_view key) {
    return as_count(image->find(key)).value_or(1);
  };
  return {count("channels"), Sides{count("height"), count("width")}};
}

void read_loss(const Value* loss, LayerList& list, Diagnostics& diagnostics) {
  if (as_text(loss).value_or("mean-square") != "cross-entropy") return;
  list.loss = ListLoss::cross_entropy;
  if (list.reads_images()) return;
  diagnostics.push_back(unavailable_at(loss->span, "the cross-entropy of a list that reads rows",
                                       "leave 'loss' out, or write the 'image' that it reads"));
}

}  // namespace

std::optional<LayerList> read_layer_list(const Value& model, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  LayerList list;
  list.image = image_of(model.find("image"));
  LayerListReader reader(list.image, diagnostics);
  const Value& layers = *model.find("layers");
  list.blocks = reader.read(layers);
  read_loss(model.find("loss"), list, diagnostics);
  check_sums(list.blocks, layers.span, diagnostics);
  if (layers.items.empty()) {
    diagnostics.push_back(error_at(layers.span, "a model has at least one layer"));
  }
  if (diagnostics.size() > before) return std::nullopt;
  if (!has_parameters(list)) {
    diagnostics.push_back(error_at(layers.span,
                                   "no layer has parameters, so there is nothing to train",
                                   "add a linear, layernorm, rmsnorm or embedding layer"));
    return std::nullopt;
  }
  return list;
}

}  // namespace memest
