#pragma once

namespace memest {

struct Row {
  int cells = 0;
};
int width_of(Row row);
const char* name_of(Row row);

}  // namespace memest
