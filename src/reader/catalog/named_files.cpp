#include "memest/reader/named_files.hpp"

#include <utility>

#include "reader/catalog/named_texts.hpp"
#include "reader/request/read_spec.hpp"

namespace memest {

std::vector<std::string> files_named_in(const ReadRequest& request) {
  Checked<Value> read = read_tree(request);
  if (!read.ok()) return {};
  Value root = std::move(read).value();
  std::vector<std::string> files;
  for (const Value* hf : named_configs(root)) files.push_back(named_config(request, *hf));
  return files;
}

}  // namespace memest
