// The extension module troupe._troupe. The package python/troupe wraps it; users do not import it.
#include "python/module/values.hpp"
#include "runtime/base/version.hpp"

PYBIND11_MODULE(_troupe, m) {
  using namespace troupe::python;
  m.doc() = "Troupe's runtime. Use the package `troupe`.";
  m.attr("version") = troupe::troupe_version;
  register_errors();
  bind_tensor(m);
  bind_job(m);
  bind_run(m);
  bind_predictor(m);
  bind_layer(m);
  bind_simulation(m);
  bind_cluster(m);
}
