#include "memory/models/teacher_model.hpp"

#include "memest/units/int128.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/timeline/labels.hpp"

namespace memest {
namespace {

EngineSettings settings_of(const EngineSettings& student, std::uint32_t place) {
  EngineSettings settings;
  settings.workspaces = student.workspaces;
  settings.buffers = student.buffers;
  settings.gradients = false;
  settings.first_place = place;
  return settings;
}

}  // namespace

void place_teacher(const Graph& graph, const Teacher& teacher, Recorder& recorder) {
  if (teacher.use == TeacherUse::own_reference) return;  // they are the model's
  const Inventory& inventory = graph.teacher_parameters;
  const ModelTensors tensors = model_tensors(inventory);
  for (const auto& [is_buffer, i] : tensors.order) {
    const TensorPlace& place = is_buffer ? tensors.buffers[i] : tensors.parameters[i];
    const DType type = is_buffer ? inventory.buffers[place.row].dtype : teacher.weights;
    recorder.allocate(checked_multiply(place.elements, size_of(type)),
                      loop_label(Holding::weights, LoopTensor::teacher));
  }
}

TeacherModel::TeacherModel(const Parts& parts)
    : part_(part_of(parts.graph, parts.graph.teacher, parts.timeline)),
      order_(part_.graph, parts.device),
      recorder_(parts.recorder),
      engine_(part_.graph, order_, settings_of(parts.settings, part_.place), parts.recorder) {}

TeacherModel::Answer TeacherModel::forward(StorageId batch) {
  engine_.forward(batch);
  engine_.end_autocast();
  Answer answer;
  for (const Answered& answered : engine_.take_answered()) {
    answer.others.push_back(recorder_.adopt(answered.storage));
  }
  answer.result = recorder_.adopt(engine_.logits());
  return answer;
}

}  // namespace memest
