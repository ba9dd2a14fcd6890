#include "reader/samples/work_lines.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr std::int64_t kMostIndex = LineWords::kMostIndex;

/// Types of elements by the names that a recording writes; of those that laws do not know the
/// nearest.
struct ElementType {
  std::string_view name;
  DType dtype;
  std::int64_t bytes;
};
constexpr std::array kElementTypes = {
    ElementType{"fp32", DType::fp32, 4},       ElementType{"bf16", DType::bf16, 2},
    ElementType{"fp16", DType::fp16, 2},       ElementType{"fp64", DType::fp64, 8},
    ElementType{"fp8", DType::fp8, 1},         ElementType{"int64", DType::int64, 8},
    ElementType{"int32", DType::int32, 4},     ElementType{"int16", DType::int32, 2},
    ElementType{"int8", DType::int8, 1},       ElementType{"uint8", DType::uint8, 1},
    ElementType{"bool", DType::boolean, 1},    ElementType{"complex64", DType::fp32, 8},
    ElementType{"complex128", DType::fp64, 16}};

/// cudaDataType_t (library_types.h).
std::optional<DType> type_of_cuda(std::int64_t type) {
  constexpr std::array kTypes = {
      std::pair{0, DType::fp32},  std::pair{1, DType::fp64},   std::pair{2, DType::fp16},
      std::pair{3, DType::int8},  std::pair{4, DType::fp32},   std::pair{5, DType::fp64},
      std::pair{8, DType::uint8}, std::pair{10, DType::int32}, std::pair{14, DType::bf16},
      std::pair{28, DType::fp8},  std::pair{29, DType::fp8},   std::pair{33, DType::fp4}};
  for (const auto& [number, dtype] : kTypes) {
    if (number == type) return dtype;
  }
  return {};
}

/// "bf16[4,:32,64]", and "3*bf16[4]" where `count` is 3.
std::optional<RecordedTensor> tensor_of(std::string_view text) {
  RecordedTensor tensor;
  if (const std::size_t star = text.find('*'); star != std::string_view::npos) {
    const auto count = whole_number(text.substr(0, star), kMostIndex);
    if (!count) return {};
    tensor.count = *count;
    text.remove_prefix(star + 1);
  }
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos || !text.ends_with(']')) return {};
  const auto* const type =
      std::ranges::find(kElementTypes, text.substr(0, open), &ElementType::name);
  if (type == kElementTypes.end()) return {};
  tensor.dtype = type->dtype;
  tensor.element_bytes = type->bytes;
  std::string_view sizes = text.substr(open + 1, text.size() - open - 2);
  while (!sizes.empty()) {
    const std::size_t comma = std::min(sizes.find(','), sizes.size());
    std::string_view size = sizes.substr(0, comma);
    sizes.remove_prefix(std::min(comma + 1, sizes.size()));
    const bool repeats = size.starts_with(':');
    if (repeats) size.remove_prefix(1);
    const auto number = whole_number(size, LineWords::kMost);
    if (!number) return {};
    tensor.shape.push_back(*number);
    if (repeats) continue;
    if (*number > 0 && tensor.stored > LineWords::kMost / *number) return {};
    tensor.stored *= *number;
  }
  return tensor;
}

/// A tensor, or "{2*bf16[8];bf16[4]}": a list of them.
std::optional<std::vector<RecordedTensor>> tensors_of(std::string_view text) {
  std::vector<RecordedTensor> tensors;
  if (!text.starts_with('{')) {
    const auto tensor = tensor_of(text);
    if (!tensor) return {};
    return std::vector{*tensor};
  }
  if (!text.ends_with('}')) return {};
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    const auto tensor = tensor_of(text.substr(0, end));
    if (!tensor) return {};
    tensors.push_back(*tensor);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return tensors;
}

std::optional<RecordedArgument> argument_of(std::string_view text) {
  if (text == "-") return RecordedArgument();
  if (text == "True" || text == "False") return RecordedArgument(text == "True" ? 1.0 : 0.0);
  if (text.find('[') != std::string_view::npos || text.starts_with('{')) {
    if (auto tensors = tensors_of(text)) return RecordedArgument(*std::move(tensors));
    return {};
  }
  // Python writes inf and nan as from_chars reads them.
  double number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (stopped != text.data() + text.size() || error == std::errc::invalid_argument) return {};
  return RecordedArgument(number);
}

template <class Kind>
std::optional<Kind> kind_of(std::string_view text, Kind last) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    if (text == name_of(static_cast<Kind>(i))) return static_cast<Kind>(i);
  }
  return {};
}

struct LineForm {
  char letter;
  std::size_t words;  ///< at least, behind the letter
  std::string_view form;
};
constexpr std::array kLineForms = {
    LineForm{'n', 2, "w n NUMBER NAME"},
    LineForm{'o', 3, "w o NUMBER NAME ARGUMENT... > RESULT..."},
    LineForm{'k', 8, "w k THREAD STREAM OPERATOR KERNEL X Y Z THREADS"},
    LineForm{'g', 10, "w g THREAD STREAM OPERATOR OPERAND RESULT LAYOUT M N K BATCH"},
    LineForm{'c', 6, "w c THREAD STREAM OPERATOR KIND BYTES RANKS"},
    LineForm{'m', 5, "w m THREAD STREAM OPERATOR PATH BYTES"},
    LineForm{'e', 2, "w e EVENT STREAM"},
    LineForm{'t', 2, "w t EVENT STREAM"},
    LineForm{'>', 2, "w > THREAD MODULE"},
    LineForm{'h', 1, "w h event NUMBER, w h stream NUMBER or w h all"},
    LineForm{'=', 1, "w = NAME"}};

}  // namespace

/// One line.
struct WorkLines::Line : LineWords {
  RecordedWork& work;
  std::unordered_map<std::size_t, std::size_t>& modules;  ///< by thread

  DType type(std::size_t word) {
    const auto type = type_of_cuda(number(word));
    if (!type) refuse(words[word], "unknown type of cudaDataType_t " + quote(text(word)));
    return type.value_or(DType::fp32);
  }

  void read_kernel_name() {
    expect_next(2, work.kernels.size(), "kernels");
    std::string name(text(3));
    for (std::size_t i = 4; i < words.size(); ++i) name += " " + std::string(text(i));
    if (good) work.kernels.push_back(std::move(name));
  }

  void read_operator() {
    expect_next(2, work.operators.size(), "operators");
    RecordedOperator op{.name = std::string(text(3))};
    bool is_result = false;
    for (std::size_t i = 4; i < words.size(); ++i) {
      constexpr std::string_view kStride = "stride=";
      if (text(i) == ">") {
        is_result = true;
      } else if (text(i).starts_with(kStride)) {
        op.rank_stride = whole_number(text(i).substr(kStride.size()), kMostIndex).value_or(1);
      } else if (auto argument = argument_of(text(i)); !argument) {
        refuse(words[i], "expected a tensor as bf16[4,64], a number or -, not " + quote(text(i)));
      } else if (!is_result) {
        op.arguments.push_back(*std::move(argument));
      } else if (auto* tensors = std::get_if<std::vector<RecordedTensor>>(&*argument)) {
        op.results.insert(op.results.end(), tensors->begin(), tensors->end());
      }
    }
    if (good) work.operators.push_back(std::move(op));
  }

  RecordedKernel kernel() {
    return {.name = known(5, work.kernels.size(), "kernel"),
            .grid = {number(6), number(7), number(8)},
            .threads = number(9)};
  }

  RecordedProduct product() {
    RecordedProduct product{.operand = type(5), .result = type(6)};
    const std::string_view layout = text(7);
    const bool is_layout =
        layout.size() >= 2 && layout.find_first_not_of("nt+~") == std::string_view::npos;
    if (!is_layout) refuse(words[7], "a layout is tn, nn or nt, not " + quote(layout));
    if (is_layout) {
      product.transposes_a = layout[0] == 't';
      product.transposes_b = layout[1] == 't';
      product.accumulates = layout.find('+') != std::string_view::npos;
      product.tensor_float = layout.find('~') != std::string_view::npos;
    }
    product.m = number(8);
    product.n = number(9);
    product.k = number(10);
    product.batch = number(11);
    return product;
  }

  RecordedMessage message() {
    const auto kind = kind_of(text(5), RecordedMessageKind::recv);
    if (!kind) refuse(words[5], "unknown message " + quote(text(5)));
    return {kind.value_or(RecordedMessageKind::send), Bytes(number(6)), number(7)};
  }

  RecordedCopy copy() {
    const auto path = kind_of(text(5), CopyPath::set);
    if (!path) refuse(words[5], "unknown path " + quote(text(5)));
    return {path.value_or(CopyPath::d2d), Bytes(number(6))};
  }

  HostWait host_wait() {
    if (text(2) == "all") return {};
    const bool of_event = text(2) == "event";
    if (words.size() < 4 || (!of_event && text(2) != "stream")) {
      refuse(words[2], "'w h' is written " + std::string(kLineForms[9].form));
      return {};
    }
    return {of_event ? HostWait::For::event : HostWait::For::stream, index(3)};
  }

  void add(WorkItem item) {
    if (good) work.items.push_back(std::move(item));
  }

  /// An item that a thread asks for in a stream, within an operator.
  template <class What>
  void add_asked(What what) {
    add({.thread = index(2),
         .stream = index(3),
         .op = known(4, work.operators.size(), "operator"),
         .module = modules[index(2)],
         .what = std::move(what)});
  }
};

void WorkLines::begin(const PlacedText& of) {
  if (work_ && of.text == "cut off") {
    work_->cut_off = true;
  } else {
    work_.emplace().of = of.text;
  }
}

void WorkLines::read(const LineWords& of, std::size_t modules) {
  if (!work_) work_.emplace();
  Line line{of, *work_, modules_};
  const std::vector<PlacedText>& words = of.words;
  const std::string_view letter = words.size() > 1 ? words[1].text : std::string_view();
  const auto* const form = std::ranges::find_if(
      kLineForms, [&](const LineForm& row) { return letter == std::string_view(&row.letter, 1); });
  if (form == kLineForms.end()) {
    return line.refuse(words.back(), "unknown work " + quote(words.back().text),
                       "known are n, o, k, g, c, m, e, t, h, > and =");
  }
  if (words.size() < form->words + 2) {
    return line.refuse(words[1],
                       "'w " + std::string(letter) + "' is written " + std::string(form->form));
  }
  switch (form->letter) {
    case 'n':
      return line.read_kernel_name();
    case 'o':
      return line.read_operator();
    case 'k':
      return line.add_asked(line.kernel());
    case 'g':
      return line.add_asked(line.product());
    case 'c':
      return line.add_asked(line.message());
    case 'm':
      return line.add_asked(line.copy());
    case 'e':
      return line.add({.stream = line.index(3), .what = EventRecorded{line.index(2)}});
    case 't':
      return line.add({.stream = line.index(3), .what = EventAwaited{line.index(2)}});
    case '>':
      modules_[line.index(2)] = line.known(3, modules, "module");
      return;
    case 'h':
      return line.add({.what = line.host_wait()});
    default:
      return line.add({.what = WorkMark{std::string(words[2].text)}});
  }
}

}  // namespace memest
