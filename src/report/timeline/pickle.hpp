// Python's pickle format, as much of it as plain data needs: protocol 2, whose codes every reader
// of PyTorch's memory snapshots knows. Values are written in the order in which they are called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace memest {

class PickleWriter {
 public:
  PickleWriter();

  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  /// UTF-8. The second time it is a reference to the first.
  void text(std::string_view value);

  /// The values until end_list() are its items.
  void begin_list();
  void end_list();
  /// The values until end_dict() are key, value, key, value, ...
  void begin_dict();
  void end_dict();
  /// The two values before it become a tuple.
  void pair();

  /// Items of a long list are handed over in parts, because readers pile up what was not yet:
  /// called between two items.
  void next_part();

  /// Gives the value before it a number by which `recall` has it again.
  std::uint32_t remember();
  void recall(std::uint32_t number);

  /// The pickle; nothing may be written after it.
  std::string finish();

 private:
  void code(unsigned char byte) { out_ += static_cast<char>(byte); }
  void little_endian(std::uint64_t value, std::size_t bytes);

  std::string out_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::uint32_t next_ = 0;
};

}  // namespace memest
