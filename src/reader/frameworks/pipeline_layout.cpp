#include "reader/frameworks/pipeline_layout.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "reader/frameworks/rules.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// A notation that unrolls to more is none of a model.
constexpr std::size_t kLongestLayout = 4 * static_cast<std::size_t>(kMaxLayers);

constexpr const char* kNotation =
    "as \"Et*3|(tt|)*29|L\": E the embedding, t a layer, m one of multi-token prediction, L the "
    "loss, | between stages";

bool is_numeral(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

/// The number behind a `*` at `at`, and where it ends.
std::optional<std::pair<std::size_t, std::size_t>> times_at(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size() || text[at] != '*' || !is_numeral(text[at + 1])) return std::nullopt;
  std::size_t end = at + 1;
  std::size_t times = 0;
  while (end < text.size() && is_numeral(text[end])) {
    times = std::min(10 * times + static_cast<std::size_t>(text[end++] - '0'), kLongestLayout);
  }
  return std::pair(times, end);
}

/// Appends `part` so often; false where the text becomes too long.
bool repeat(std::string& text, std::string_view part, std::size_t times) {
  if (part.size() * times > kLongestLayout - std::min(text.size(), kLongestLayout)) return false;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return true;
}

/// parse_str_to_list (pipeline_parallel_layer_layout.py): `(...)*n` first, innermost text alone,
/// then `x*n`, each once from left to right. Nothing where it is too long.
std::optional<std::string> unrolled(std::string_view text, bool groups) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t begin = at;
    std::size_t end = at + 1;
    if (groups && text[at] == '(') {
      const std::size_t close = text.find(')', at);
      if (close != std::string_view::npos && close > at + 1) begin = at + 1, end = close;
    }
    const bool is_group = begin > at;
    const auto times =
        groups && !is_group ? std::nullopt : times_at(text, end + (is_group ? 1 : 0));
    if (!times) begin = at, end = at + 1;
    if (!repeat(result, text.substr(begin, end - begin), times ? times->first : 1)) {
      return std::nullopt;
    }
    at = times ? times->second : end;
  }
  return result;
}

/// The letters of the stages, a `|` between them; without the commas, which say nothing.
std::optional<std::string> letters_of(std::string text) {
  std::erase(text, ',');
  const auto groups = unrolled(text, true);
  return groups ? unrolled(*groups, false) : std::nullopt;
}

/// Why the letters are no model's, in the words of Megatron's own assertions, or nothing.
std::optional<std::string> fault_of(const std::string& letters) {
  const auto wrong = letters.find_first_not_of("EtmL|");
  if (wrong != std::string::npos) {
    return "invalid layer character " + quote(letters.substr(wrong, 1)) +
           ", known layer characters are E, t, m and L";
  }
  const auto count = [&](char letter) {
    return std::count(letters.begin(), letters.end(), letter);
  };
  std::string flat = letters;
  std::erase(flat, '|');
  if (flat.empty() || flat.front() != 'E') return "the first layer must be the embedding";
  if (flat.back() != 'L') return "the last layer must be the loss";
  if (count('E') != 1) return "the embedding must be specified exactly once";
  if (count('L') != 1) return "the loss must be specified exactly once";
  if (letters.front() == '|') return "the embedding must be in the first stage";
  if (letters.back() == '|') return "the loss must be in the last stage";
  return std::nullopt;
}

/// Whether layers of prediction do not stand together with the loss.
bool predicts_elsewhere(const std::string& letters) {
  const auto first = letters.find('m');
  return first != std::string::npos && letters.find_first_not_of('m', first) != letters.size() - 1;
}

std::vector<std::int64_t> stages_in(const std::string& letters) {
  std::vector<std::int64_t> stages{0};
  for (const char letter : letters) {
    if (letter == '|') stages.push_back(0);
    if (letter == 't') ++stages.back();
  }
  return stages;
}

std::optional<std::vector<std::int64_t>> listed(const Value& written, Diagnostics& diagnostics) {
  if (written.kind == ValueKind::sequence) {
    std::vector<std::int64_t> stages;
    for (const Value& item : written.items) {
      const auto count = as_count(&item);
      if (!count) return std::nullopt;  // check_table has said so
      stages.push_back(*count);
    }
    return stages;
  }
  const auto letters = letters_of(written.text);
  if (!letters) {
    diagnostics.push_back(error_at(
        written.span, "a layout of more than " + std::to_string(kLongestLayout) + " letters",
        kNotation));
    return std::nullopt;
  }
  if (const auto fault = fault_of(*letters)) {
    diagnostics.push_back(error_at(written.span, *fault, kNotation));
    return std::nullopt;
  }
  if (predicts_elsewhere(*letters)) {
    diagnostics.push_back(unavailable_at(written.span,
                                         "multi-token prediction in another stage than the loss",
                                         "write every 'm' before 'L'"));
    return std::nullopt;
  }
  return stages_in(*letters);
}

/// A stage between the ends without a layer would hand on what it is given.
std::optional<std::size_t> empty_stage(const std::vector<std::int64_t>& stages) {
  for (std::size_t i = 1; i + 1 < stages.size(); ++i) {
    if (stages[i] == 0) return i;
  }
  return std::nullopt;
}

std::string layers_text(std::int64_t count) {
  constexpr std::int64_t kLongestRow = 2;
  if (count <= kLongestRow) return std::string(static_cast<std::size_t>(count), 't');
  return "t*" + std::to_string(count);
}

/// validate_layer_layout: a notation has as many layers of prediction as the model; numbers say
/// nothing of them.
void check_listed_predictions(const Value& written, const Job& job, Diagnostics& diagnostics) {
  if (written.kind == ValueKind::sequence) return;
  const std::string letters = letters_of(written.text).value_or("");
  const std::int64_t listed = std::count(letters.begin(), letters.end(), 'm');
  const std::int64_t of_model = mtp_layers_of(job);
  if (listed == of_model) return;
  diagnostics.push_back(
      error_at(written.span,
               "the number of layers 'm' of the layout, " + std::to_string(listed) +
                   ", must match the model's 'mtp_num_layers', " + std::to_string(of_model),
               kNotation));
}

}  // namespace

std::vector<std::int64_t> read_pipeline_layout(const Value& written, std::int64_t pipeline,
                                               Diagnostics& diagnostics) {
  auto stages = listed(written, diagnostics);
  if (!stages) return {};
  const auto count = static_cast<std::int64_t>(stages->size());
  if (count == 0 || count % pipeline != 0) {
    diagnostics.push_back(error_at(
        written.span,
        "the " + std::to_string(count) + " stages of the layout must be divisible by 'pipeline' " +
            std::to_string(pipeline),
        "list the first stage of every rank, then the second of every rank"));
    return {};
  }
  if (const auto empty = empty_stage(*stages)) {
    diagnostics.push_back(unavailable_at(
        written.span,
        "stage " + std::to_string(*empty + 1) + " of " + std::to_string(count) + " without a layer",
        "give every stage between the first and the last a layer"));
    return {};
  }
  return *std::move(stages);
}

std::string pipeline_layout_text(const std::vector<std::int64_t>& stages, std::int64_t mtp_layers) {
  std::string text = "E" + layers_text(stages.front());
  for (std::size_t i = 1; i < stages.size();) {
    std::size_t end = i + 1;
    while (end + 1 < stages.size() && stages[end] == stages[i]) ++end;
    const bool between = i + 1 < stages.size();
    if (i == 1) text += "|";
    if (!between) {
      text += layers_text(stages[i]);
    } else if (end - i == 1) {
      text += layers_text(stages[i]) + "|";
    } else {
      text += "(" + layers_text(stages[i]) + "|)*" + std::to_string(end - i);
    }
    i = between ? end : i + 1;
  }
  return text + std::string(static_cast<std::size_t>(mtp_layers), 'm') + "L";
}

void check_pipeline_layout(const Value& parallelism, const Job& job, Diagnostics& diagnostics) {
  const Value* written = parallelism.find("pipeline_layout");
  const Parallelism& layout = job.parallelism;
  if (written == nullptr || layout.stage_layers.empty()) return;
  for (const std::string_view key :
       {"first_stage_layers", "last_stage_layers", "account_for_embedding", "account_for_loss"}) {
    const Value* other = parallelism.find(key);
    if (other == nullptr || other->text == "false") continue;
    diagnostics.push_back(error_at(
        other->span, "'pipeline_layout' cannot be set with other keys of how layers are divided",
        "leave one of the two out"));
  }
  const auto stages = static_cast<std::int64_t>(layout.stage_layers.size());
  if (stages != layout.pipeline * layout.virtual_stages) {
    diagnostics.push_back(error_at(parallelism.find("virtual_stages")->span,
                                   "'virtual_stages' conflicts with 'pipeline_layout', which has " +
                                       std::to_string(stages / layout.pipeline) + " a rank",
                                   "leave 'virtual_stages' out"));
  }
  check_listed_predictions(*written, job, diagnostics);
  const std::int64_t layers =
      std::accumulate(layout.stage_layers.begin(), layout.stage_layers.end(), std::int64_t{0});
  const std::int64_t of_model = decoder_layers_of(job);
  if (of_model == 0 || layers == of_model) return;
  diagnostics.push_back(error_at(written->span,
                                 "the number of layers of the layout, " + std::to_string(layers) +
                                     ", must match the model's, " + std::to_string(of_model),
                                 "list as many layers as the model has"));
}

}  // namespace memest
