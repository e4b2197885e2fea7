// A job on a virtual cluster (runtime/sim/world.hpp), as an iterator of its events.
#include "runtime/node/simulation/sim_setup.hpp"

#include <deque>
#include <nlohmann/json.hpp>

#include "ops/device.hpp"
#include "python/module/job.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/record/sha256.hpp"
#include "runtime/sim/world.hpp"

namespace troupe::python {
namespace {

using json = nlohmann::ordered_json;

double seconds_of(time_point t) { return std::chrono::duration<double>(t).count(); }

constexpr duration longest_schedule = std::chrono::hours(24 * 365);

// A job on simulated roles or, if a fault hits a daemon, on simulated daemons.
class python_simulation {
 public:
  python_simulation(sim_setup s, std::shared_ptr<device> dev) : dev_(std::move(dev)), s_(std::move(s)), world_(s_.world) {
    if (s_.daemons) {
      begin_daemons();
      return;
    }
    world_.on_event = [this](const event_effect& e) {
      over_ = over_ || ends_job(e);
      add(event_object(e, event_form::session));
    };
    world_.on_store = [this](const store_effect& e) {
      if (e.what == store_effect::kind_of::weights) weights_ = e.named;
    };
    begin_sim(s_, world_);
  }

  // The next event; raises StopIteration after the last one.
  py::object next() {
    {
      const py::gil_scoped_release free;
      while (events_.empty() && !over_) {
        for (int i = 0; i < steps_between_signals && events_.empty() && !over_; ++i)
          if (!step()) {
            over_ = true;
            stuck_ = true;
          }
        const py::gil_scoped_acquire guard;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      }
    }
    if (events_.empty()) {
      if (std::exchange(stuck_, false))
        throw training_error("no events are left at " + fixed_text(now(), 6) + " s of virtual time, and the job is not done", {},
                             {});
      throw py::stop_iteration();
    }
    const auto event = std::move(events_.front());
    events_.pop_front();
    if (event["event"] == "error") throw training_error(event["message"].get<std::string>(), event["where"].get<std::string>(), {});
    return object_of(event);
  }

  double now() const { return seconds_of((daemons_ ? daemons_->hosts() : world_).now()); }
  py::dict weights() const { return dict_of(weights_); }
  std::string hash() const { return weights_.empty() ? std::string() : weights_sha256(weights_); }
  std::string trace() const {
    const auto words = (daemons_ ? daemons_->hosts() : world_).trace_state();
    return sha256_hex(words.data(), sizeof(words));
  }
  std::vector<std::string> nodes() const { return s_.world.node_names; }

 private:
  static constexpr int steps_between_signals = 20000;

  void begin_daemons() {
    daemons_ = std::make_unique<sim::sim_cluster>(*s_.daemons);
    daemons_->plan(draw_schedule(s_.machine_faults, daemons_->nodes(), s_.world.seed, longest_schedule));
    daemons_->on_event = [this](const sim::heard_event& e) {
      json o{{"event", e.kind}, {"step", e.step}, {"message", e.text}};
      for (const auto& [key, value] : e.values) o[key] = value;
      for (const auto& [key, text] : e.texts) o[key] = text;
      if (e.kind == "error") o.emplace("where", "");
      if (is_last(e)) {
        over_ = true;
        weights_ = daemons_->weights();
      }
      add(std::move(o));
    };
    daemons_->on_fault = [this](const sim::happening& h) {
      add({{"event", "fault"}, {"kind", sim::text_of(h.kind)}, {"message", sim::text_of(h, s_.world.node_names)}});
    };
    daemons_->on_refusal = [this](const std::string& why) {
      over_ = true;
      add({{"event", "error"}, {"message", why}, {"where", ""}});
    };
  }
  bool step() { return daemons_ ? daemons_->step() : world_.step(); }

  void add(json o) {
    o["time"] = now();
    events_.push_back(std::move(o));
  }

  std::shared_ptr<device> dev_;
  sim_setup s_;
  sim::world world_;                           // of roles; unused with daemons
  std::unique_ptr<sim::sim_cluster> daemons_;  // null: no fault hits a daemon
  std::deque<json> events_;
  named_tensors weights_;
  bool over_ = false, stuck_ = false;
};

std::unique_ptr<python_simulation> make(const py::dict& d, const py::list& layers, const py::dict& arrays) {
  sim_request r;
  r.job = d["file"].cast<std::string>();
  if (!d["text"].is_none()) r.text = d["text"].cast<std::string>();
  for (const auto& o : d["overrides"]) r.overrides.push_back(o.cast<std::string>());
  r.load_plugins = d["load_plugins"].cast<bool>();
  r.cluster = d["cluster"].cast<std::string>();
  r.network = d["network"].cast<std::string>();
  r.faults = d["faults"].cast<std::string>();
  r.maths = d["maths"].cast<std::string>();
  r.nodes = d["nodes"].cast<unsigned>();
  r.seed = d["seed"].cast<std::int64_t>();
  r.steps = d["steps"].cast<std::int64_t>();
  r.buckets = d["buckets"].cast<std::int64_t>();
  const auto all = tables_with(layers, arrays);
  const py::gil_scoped_release free;
  const std::shared_ptr<device> dev = make_cpu_device();
  auto made = make_sim(std::move(r), dev, all);
  if (!made) throw job_error(made.error());
  return std::make_unique<python_simulation>(*std::move(made), dev);
}

}  // namespace

void bind_simulation(py::module_& m) {
  py::class_<python_simulation>(m, "Simulation")
      .def(py::init(&make))
      .def("next", &python_simulation::next)
      .def_property_readonly("seconds", &python_simulation::now)
      .def_property_readonly("weights", &python_simulation::weights)
      .def_property_readonly("weights_sha256", &python_simulation::hash)
      .def_property_readonly("trace_sha256", &python_simulation::trace)
      .def_property_readonly("nodes", &python_simulation::nodes);
}

}  // namespace troupe::python
