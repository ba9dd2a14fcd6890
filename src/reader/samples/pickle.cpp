#include "reader/samples/pickle.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "reader/samples/pickle_opcodes.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

constexpr std::size_t kMostNodes = std::size_t{1} << 27U;  // 2 GiB of them

}  // namespace

class PickleReader {
 public:
  explicit PickleReader(const std::shared_ptr<const SourceText>& source) : bytes_(source->text) {
    pickle_.source_ = source;
  }

  Checked<Pickle> read() {
    while (!fault_ && !done_) step();
    if (fault_) return *std::move(fault_);
    return std::move(pickle_);
  }

 private:
  using Id = Pickle::Id;
  static constexpr Id kMark = std::numeric_limits<Id>::max();

  void fail(std::string message, std::string hint = {}) {
    if (!fault_) fault_ = error_at({pickle_.source_, 0, 0, 0}, std::move(message), std::move(hint));
  }

  /// " at byte 1234", where the code under way stands.
  [[nodiscard]] std::string here() const {
    return std::string(opcode_->name) + " at byte " + std::to_string(begin_);
  }

  void step() {
    begin_ = at_;
    if (at_ == bytes_.size()) {
      return fail("the pickle ends at byte " + std::to_string(at_) + " without STOP",
                  "it is cut short");
    }
    const auto code = static_cast<unsigned char>(bytes_[at_++]);
    const auto* const found = std::ranges::find(kPickleOpcodes, code, &PickleOpcode::code);
    if (found == kPickleOpcodes.end()) {
      return fail("byte " + std::to_string(begin_) +
                  " is no code of a pickle: " + std::to_string(static_cast<int>(code)));
    }
    opcode_ = &*found;
    if (opcode_->action == PickleAction::refuse) {
      return fail("the pickle has " + here() + ", which no memory snapshot has",
                  "memest reads plain data of a pickle and runs nothing");
    }
    if (opcode_->operand != PickleOperand::none && !read_operand()) return;
    act(code);
  }

  /// Little-endian, as all numbers of a pickle but BINFLOAT's.
  bool read_operand() {
    number_ = 0;
    if (bytes_.size() - at_ < opcode_->bytes) return cut_short();
    for (unsigned i = 0; i < opcode_->bytes; ++i) {
      number_ |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << 8 * i;
    }
    at_ += opcode_->bytes;
    if (opcode_->operand == PickleOperand::number) return true;
    if (number_ > bytes_.size() - at_) return cut_short();
    text_ = bytes_.substr(at_, static_cast<std::size_t>(number_));
    at_ += text_.size();
    return true;
  }

  bool cut_short() {
    fail("the pickle ends within " + here(), "it is cut short");
    return false;
  }

  void act(unsigned char code) {
    switch (opcode_->action) {
      case PickleAction::refuse:
      case PickleAction::skip:
        return;
      case PickleAction::stop:
        return stop();
      case PickleAction::mark:
        return stack_.push_back(kMark);
      case PickleAction::none:
        return push({});
      case PickleAction::yes:
      case PickleAction::no:
        return push_integer(PickleKind::boolean, opcode_->action == PickleAction::yes ? 1 : 0);
      case PickleAction::integer:
        return push_integer(PickleKind::integer, static_cast<std::int64_t>(number_));
      case PickleAction::negative_too:
        return push_integer(PickleKind::integer, static_cast<std::int32_t>(number_));
      case PickleAction::long_integer:
        return push_long();
      case PickleAction::real:
        return push_real();
      case PickleAction::text:
        return push_text();
      case PickleAction::list:
        return push_items(PickleKind::list, {});
      case PickleAction::dict:
        return push_items(PickleKind::dict, {});
      case PickleAction::empty_tuple:
        return push_items(PickleKind::tuple, {});
      case PickleAction::tuple:
        return push_items(PickleKind::tuple, take_to_mark());
      case PickleAction::short_tuple:
        return push_items(PickleKind::tuple, take(code - 0x84));
      case PickleAction::append:
        return fill(PickleKind::list, take(1));
      case PickleAction::appends:
        return fill(PickleKind::list, take_to_mark());
      case PickleAction::set_item:
        return fill(PickleKind::dict, take(2));
      case PickleAction::set_items:
        return fill(PickleKind::dict, take_to_mark());
      case PickleAction::memoize:
        return put(memo_.size());
      case PickleAction::put:
        return put(static_cast<std::size_t>(number_));
      case PickleAction::get:
        return get();
    }
    unreachable("an action beyond the enum");
  }

  void stop() {
    const std::vector<Id> last = take(1);
    if (fault_) return;
    if (!stack_.empty()) return fail("the pickle leaves values behind " + here());
    pickle_.root_ = last.front();
    done_ = true;
  }

  void push(const Pickle::Node& node) {
    if (pickle_.nodes_.size() == kMostNodes) return fail("the pickle has too many values to keep");
    stack_.push_back(static_cast<Id>(pickle_.nodes_.size()));
    pickle_.nodes_.push_back(node);
  }

  void push_integer(PickleKind kind, std::int64_t value) {
    Pickle::Node node;
    node.kind = kind;
    node.integer = value;
    push(node);
  }

  /// Two's complement, as many bytes as it takes.
  void push_long() {
    constexpr std::size_t kMost = sizeof(std::int64_t);
    if (text_.size() > kMost) return fail("a number of more than 64 bits: " + here());
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(text_[i])) << 8 * i;
    }
    const bool negative = !text_.empty() && (static_cast<unsigned char>(text_.back()) & 0x80U) != 0;
    if (negative && text_.size() < kMost) bits |= ~std::uint64_t{0} << 8 * text_.size();
    push_integer(PickleKind::integer, static_cast<std::int64_t>(bits));
  }

  void push_real() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (number_ >> (8 * i) & 0xFFU) << (56 - 8 * i);
    Pickle::Node node;
    node.kind = PickleKind::real;
    node.real = std::bit_cast<double>(bits);
    push(node);
  }

  void push_text() {
    if (text_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return fail("a text of more than 4 GiB: " + here());
    }
    Pickle::Node node;
    node.kind = PickleKind::text;
    node.size = static_cast<std::uint32_t>(text_.size());
    node.text = text_.data();
    push(node);
  }

  void push_items(PickleKind kind, std::vector<Id> items) {
    if (fault_) return;
    Pickle::Node node;
    node.kind = kind;
    node.items = pickle_.items_.size();
    pickle_.items_.push_back(std::move(items));
    push(node);
  }

  /// Takes the last `count` values, or fails where there are fewer behind the last mark.
  std::vector<Id> take(int count) {
    const auto wanted = static_cast<std::size_t>(count);
    std::vector<Id> values(
        stack_.end() - static_cast<std::ptrdiff_t>(std::min(wanted, stack_.size())), stack_.end());
    if (values.size() < wanted || std::ranges::find(values, kMark) != values.end()) {
      fail("a value is missing before " + here());
      return {};
    }
    stack_.resize(stack_.size() - wanted);
    return values;
  }

  std::vector<Id> take_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) {
      fail("a MARK is missing before " + here());
      return {};
    }
    std::vector<Id> values(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return values;
  }

  /// Adds the values to the list or dictionary before them.
  void fill(PickleKind kind, const std::vector<Id>& values) {
    if (fault_) return;
    const bool there =
        !stack_.empty() && stack_.back() != kMark && pickle_.nodes_[stack_.back()].kind == kind;
    if (!there) {
      return fail((kind == PickleKind::list ? "no list before " : "no dictionary before ") +
                  here());
    }
    if (kind == PickleKind::dict && values.size() % 2 != 0) {
      return fail("a key without its value before " + here());
    }
    std::vector<Id>& items = pickle_.items_[pickle_.nodes_[stack_.back()].items];
    items.insert(items.end(), values.begin(), values.end());
  }

  void put(std::size_t number) {
    if (stack_.empty() || stack_.back() == kMark) {
      return fail("a value is missing before " + here());
    }
    // Numbers count up, with hardly a gap.
    if (number > memo_.size() + kMostGap) return fail("a number out of order: " + here());
    if (number >= memo_.size()) memo_.resize(number + 1, kMark);
    memo_[number] = stack_.back();
  }

  void get() {
    const auto number = static_cast<std::size_t>(number_);
    if (number >= memo_.size() || memo_[number] == kMark) {
      return fail("nothing was remembered as " + std::to_string(number) + ": " + here());
    }
    stack_.push_back(memo_[number]);
  }

  static constexpr std::size_t kMostGap = 1024;

  std::string_view bytes_;
  Pickle pickle_;
  std::optional<Diagnostic> fault_;
  bool done_ = false;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
  const PickleOpcode* opcode_ = nullptr;
  std::uint64_t number_ = 0;  // of the operand
  std::string_view text_;     // of the operand
  std::vector<Id> stack_;
  std::vector<Id> memo_;
};

Checked<Pickle> Pickle::read(const std::shared_ptr<const SourceText>& source) {
  return PickleReader(source).read();
}

std::optional<std::int64_t> Pickle::integer(Id id) const {
  const Node& node = nodes_[id];
  if (node.kind != PickleKind::integer && node.kind != PickleKind::boolean) return {};
  return node.integer;
}

std::optional<double> Pickle::real(Id id) const {
  const Node& node = nodes_[id];
  if (node.kind == PickleKind::integer) return static_cast<double>(node.integer);
  if (node.kind != PickleKind::real) return {};
  return node.real;
}

std::optional<std::string_view> Pickle::text(Id id) const {
  const Node& node = nodes_[id];
  if (node.kind != PickleKind::text) return {};
  return std::string_view(node.text, node.size);
}

const std::vector<Pickle::Id>& Pickle::items(Id id) const {
  static const std::vector<Id> kNone;
  const Node& node = nodes_[id];
  const bool holds = node.kind == PickleKind::list || node.kind == PickleKind::tuple ||
                     node.kind == PickleKind::dict;
  return holds ? items_[node.items] : kNone;
}

std::optional<Pickle::Id> Pickle::find(Id dict, std::string_view key) const {
  if (kind(dict) != PickleKind::dict) return {};
  const std::vector<Id>& entries = items(dict);
  for (std::size_t i = entries.size(); i >= 2; i -= 2) {
    if (text(entries[i - 2]) == key) return entries[i - 1];
  }
  return {};
}

}  // namespace memest
