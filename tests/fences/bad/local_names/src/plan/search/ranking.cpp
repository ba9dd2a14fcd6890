namespace memest {
namespace {

constexpr double kUnknown = 0;

double cost_of(const Plan& plan) { return plan.cost; }

}  // namespace
}  // namespace memest
