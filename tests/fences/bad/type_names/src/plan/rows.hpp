#pragma once

namespace memest {
namespace {

struct Place {
  int rank = 0;
};

}  // namespace

struct Row {
  bool answers = false;
};
using Cells = float;
/// Another meaning than report's, and one of a noun's overloads.
double width_of(const Row& row);
const char* name_of(const Row& row);

}  // namespace memest
