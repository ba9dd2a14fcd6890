#include "memest/reader/named_files.hpp"

#include "reader/job/read_job.hpp"
#include "reader/job/read_model.hpp"

namespace memest {

std::vector<std::string> files_named_in(const ReadRequest& request) {
  const Checked<Value> root = read_tree(request);
  if (!root.ok()) return {};
  const Value* model = root.value().find("model");
  const Value* hf = model == nullptr ? nullptr : model->find("hf");
  if (hf == nullptr || hf->kind != ValueKind::scalar) return {};
  return {config_path(*hf)};
}

}  // namespace memest
