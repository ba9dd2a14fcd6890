// The work that a recorded program gave its device in a step: kernels, products, messages and
// copies in the order in which they were asked for, with the operators of PyTorch that they belong
// to, and what waits for what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/spec/dtype.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// A module of the program whose forward ran.
struct RecordedModule {
  std::string kind;  ///< its class: "Linear"
  std::string name;  ///< in the outermost module: "model.layers.0.mlp"; of that one its class
};

/// Tensors of the device that are alike, as an operator takes or gives them.
struct RecordedTensor {
  DType dtype = DType::fp32;
  std::int64_t element_bytes = 4;
  std::int64_t count = 1;           ///< so many of them in a list
  std::vector<std::int64_t> shape;  ///< of each
  /// Elements of each that lie in memory: sizes of stride 0 repeat them.
  std::int64_t stored = 1;

  [[nodiscard]] std::int64_t elements() const;
  /// The bytes of all of them, as they lie in memory. Throws OverflowError.
  [[nodiscard]] Bytes bytes() const;
};

/// Tensors, a number (true is 1), or what has no part in the work: None, a tensor of the host.
using RecordedArgument = std::variant<std::monostate, double, std::vector<RecordedTensor>>;

/// A call of an operator that asked for work itself, not through another one.
struct RecordedOperator {
  std::string name;  ///< "aten::mm"; "?" where it is not known
  std::vector<RecordedArgument> arguments = {};
  std::vector<RecordedTensor> results = {};
  std::int64_t rank_stride = 1;  ///< of a message: from one of its ranks to the next

  /// The tensors of an argument; none where it has none.
  [[nodiscard]] const std::vector<RecordedTensor>& tensors(std::size_t argument) const;
  /// The number of an argument; 0 where it has none.
  [[nodiscard]] double number(std::size_t argument) const;
};

struct RecordedKernel {
  std::size_t name = 0;                   ///< index into RecordedWork::kernels
  std::array<std::int64_t, 3> grid = {};  ///< in blocks; zeros of a call of a library
  std::int64_t threads = 0;               ///< of a block
};

/// op(A)[m, k] · op(B)[k, n], `batch` times, by columns as cuBLAS counts.
struct RecordedProduct {
  DType operand = DType::fp32;
  DType result = DType::fp32;
  bool transposes_a = false;
  bool transposes_b = false;
  bool accumulates = false;
  bool tensor_float = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
};

enum class RecordedMessageKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  send,
  recv
};
/// "all_reduce", ..., as a recording writes it.
std::string_view name_of(RecordedMessageKind kind);

struct RecordedMessage {
  RecordedMessageKind kind = RecordedMessageKind::all_reduce;
  Bytes bytes;  ///< the whole buffer: all that is gathered or scattered
  std::int64_t ranks = 1;
};

enum class CopyPath : std::uint8_t { d2d, h2d, d2h, h2d_pageable, d2h_pageable, h2h, set };
/// "d2d", ..., as a recording writes it.
std::string_view name_of(CopyPath path);

struct RecordedCopy {
  CopyPath path = CopyPath::d2d;
  Bytes bytes;
};

/// A stream has reached the event when its work until then is done.
struct EventRecorded {
  std::size_t event = 0;
};
/// A stream's later work waits for the event.
struct EventAwaited {
  std::size_t event = 0;
};

/// The host waits for an event, or for a stream, or for the device.
struct HostWait {
  enum class For : std::uint8_t { event, stream, device };
  For target = For::device;
  std::size_t number = 0;
};

/// A moment of the program: "step2.forward" ends.
struct WorkMark {
  std::string name;
};

struct WorkItem {
  std::size_t thread = 0;  ///< of the host, that asked for it; the program's own is 0
  std::size_t stream = 0;
  std::size_t op = 0;      ///< index into RecordedWork::operators
  std::size_t module = 0;  ///< index into RecordedWork::modules, whose forward asked for it, or
                           ///< made the node of the backward that did
  std::variant<RecordedKernel, RecordedProduct, RecordedMessage, RecordedCopy, EventRecorded,
               EventAwaited, HostWait, WorkMark>
      what;
};

struct RecordedWork {
  std::string of;        ///< "step2", or "program" where it has no optimizer
  bool cut_off = false;  ///< there was more
  std::vector<std::string> kernels;
  std::vector<RecordedOperator> operators = {{.name = "?"}};  ///< the first stands for none
  std::vector<RecordedModule> modules = {{}};                 ///< the first stands for none
  std::vector<WorkItem> items;
};

}  // namespace memest
