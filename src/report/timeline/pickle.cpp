#include "report/timeline/pickle.hpp"

#include <bit>
#include <limits>
#include <utility>

namespace memest {
namespace {

// Opcodes, by their names in CPython's Lib/pickle.py.
constexpr unsigned char kProto = 0x80;
constexpr unsigned char kStop = '.';
constexpr unsigned char kOpenMark = '(';
constexpr unsigned char kNewTrue = 0x88;
constexpr unsigned char kNewFalse = 0x89;
constexpr unsigned char kBinInt = 'J';    // 4 bytes, signed
constexpr unsigned char kBinInt1 = 'K';   // 1 byte, unsigned
constexpr unsigned char kBinInt2 = 'M';   // 2 bytes, unsigned
constexpr unsigned char kLong1 = 0x8a;    // a count of bytes, then two's complement
constexpr unsigned char kBinFloat = 'G';  // 8 bytes, big-endian
constexpr unsigned char kBinUnicode = 'X';
constexpr unsigned char kEmptyList = ']';
constexpr unsigned char kAppends = 'e';
constexpr unsigned char kEmptyDict = '}';
constexpr unsigned char kSetItems = 'u';
constexpr unsigned char kTuple2 = 0x86;
constexpr unsigned char kBinPut = 'q';
constexpr unsigned char kLongBinPut = 'r';
constexpr unsigned char kBinGet = 'h';
constexpr unsigned char kLongBinGet = 'j';

// Protocol 2: the oldest with opcodes for booleans, pairs and long integers, and every Python 3
// reads it.
constexpr unsigned char kProtocol = 2;

}  // namespace

PickleWriter::PickleWriter() {
  code(kProto);
  code(kProtocol);
}

void PickleWriter::little_endian(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) code(static_cast<unsigned char>(value >> (8 * i)));
}

void PickleWriter::boolean(bool value) { code(value ? kNewTrue : kNewFalse); }

void PickleWriter::integer(std::int64_t value) {
  // The shortest opcode that holds it, as save_long chooses: 200 takes 2 bytes, 60,000 takes 3, an
  // address 10.
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    code(kBinInt1);
    little_endian(static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value <= std::numeric_limits<std::uint16_t>::max()) {
    code(kBinInt2);
    little_endian(static_cast<std::uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    code(kBinInt);
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    code(kLong1);
    code(8);
    little_endian(static_cast<std::uint64_t>(value), 8);
  }
}

void PickleWriter::real(double value) {
  code(kBinFloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) code(static_cast<unsigned char>(bits >> shift));
}

void PickleWriter::text(std::string_view value) {
  // A key stands in a snapshot once an entry; from the second time on it costs 2 to 5 bytes.
  const auto known = texts_.find(std::string(value));
  if (known != texts_.end()) {
    recall(known->second);
    return;
  }
  code(kBinUnicode);
  little_endian(value.size(), 4);
  out_ += value;
  texts_.emplace(value, remember());
}

void PickleWriter::begin_list() {
  code(kEmptyList);
  code(kOpenMark);
}

void PickleWriter::end_list() { code(kAppends); }

void PickleWriter::next_part() {
  // APPENDS takes all from the last MARK on off the reader's stack; what follows begins at a new
  // one.
  code(kAppends);
  code(kOpenMark);
}

void PickleWriter::begin_dict() {
  code(kEmptyDict);
  code(kOpenMark);
}

void PickleWriter::end_dict() { code(kSetItems); }

void PickleWriter::pair() { code(kTuple2); }

std::uint32_t PickleWriter::remember() {
  // Pickler.put and get: the first 256 numbers of the reader's memo take a byte, the others four.
  const bool is_short = next_ <= std::numeric_limits<std::uint8_t>::max();
  code(is_short ? kBinPut : kLongBinPut);
  little_endian(next_, is_short ? 1 : 4);
  return next_++;
}

void PickleWriter::recall(std::uint32_t number) {
  const bool is_short = number <= std::numeric_limits<std::uint8_t>::max();
  code(is_short ? kBinGet : kLongBinGet);
  little_endian(number, is_short ? 1 : 4);
}

std::string PickleWriter::finish() {
  code(kStop);
  return std::move(out_);
}

}  // namespace memest
