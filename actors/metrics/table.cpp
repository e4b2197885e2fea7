#include "actors/metrics/exposition.hpp"

namespace troupe {
namespace {

constexpr auto gauge_kind = metric_kind::gauge, counter_kind = metric_kind::counter, histogram_kind = metric_kind::histogram;

// In the order of the page. docs/ecosystem.md describes the groups.
constexpr metric entries[] = {
    {"troupe_build_info", gauge_kind, "version node", "Version of Troupe and name of the node; always 1."},

    // The process. Without a prefix, as in every Prometheus client.
    {"process_cpu_seconds_total", counter_kind, "", "CPU time of the process, user and system."},
    {"process_resident_memory_bytes", gauge_kind, "", "Resident memory of the process."},
    {"process_virtual_memory_bytes", gauge_kind, "", "Address space of the process."},
    {"process_open_fds", gauge_kind, "", "Open file descriptors of the process."},
    {"process_max_fds", gauge_kind, "", "Maximum number of open file descriptors."},
    {"process_start_time_seconds", gauge_kind, "", "Start of the process, in seconds since 1970."},
    {"process_threads", gauge_kind, "", "Threads of the process."},
    {"troupe_memory_limit_bytes", gauge_kind, "", "Memory that the machine or its cgroup gives the process."},
    {"troupe_memory_available_bytes", gauge_kind, "", "Part of troupe_memory_limit_bytes that is free."},
    {"troupe_pool_held_bytes", gauge_kind, "pool", "Memory that a pool has allocated (tensors, data, control)."},
    {"troupe_pool_used_bytes", gauge_kind, "pool", "Part of troupe_pool_held_bytes that is in use."},
    {"troupe_pool_peak_bytes", gauge_kind, "pool", "Largest troupe_pool_used_bytes since the start."},

    // Jobs: from the daemon that coordinates them, or from `troupe train`.
    {"troupe_jobs", gauge_kind, "state", "Jobs by state."},
    {"troupe_job_info", gauge_kind, "job_id job_name owner", "A job's name and owner; always 1."},
    {"troupe_job_state", gauge_kind, "job_id state", "1 for the job's present state."},
    {"troupe_job_step", gauge_kind, "job_id", "Last complete step. Falls when a job goes back to a checkpoint."},
    {"troupe_job_last_step", gauge_kind, "job_id", "Number of steps that the job will make at most; 0: no limit."},
    {"troupe_job_steps_total", counter_kind, "job_id", "Completed steps, repeated ones included."},
    {"troupe_job_examples_total", counter_kind, "job_id", "Examples in completed steps, repeated ones included."},
    {"troupe_job_skipped_steps_total", counter_kind, "job_id", "Steps skipped because their gradient was not finite."},
    {"troupe_job_epoch", gauge_kind, "job_id", "Epochs that are complete, with fractions."},
    {"troupe_job_loss", gauge_kind, "job_id", "Training loss of the last step."},
    {"troupe_job_accuracy_ratio", gauge_kind, "job_id", "Accuracy of the last evaluation."},
    {"troupe_job_best_accuracy_ratio", gauge_kind, "job_id", "Best accuracy of an evaluation."},
    {"troupe_job_eval_loss", gauge_kind, "job_id", "Loss of the last evaluation."},
    {"troupe_job_learning_rate", gauge_kind, "job_id", "Learning rate of the last step."},
    {"troupe_job_examples_per_second", gauge_kind, "job_id", "Examples per second, averaged over the last steps."},
    {"troupe_job_step_seconds", histogram_kind, "job_id", "Time between the ends of two steps."},
    {"troupe_job_last_step_timestamp_seconds", gauge_kind, "job_id", "When the last step was complete, in seconds since 1970."},
    {"troupe_job_events_total", counter_kind, "job_id kind", "Events of the job by kind, as `watch` shows them."},
    {"troupe_job_node_failures_total", counter_kind, "job_id", "Failures of nodes that the job has survived."},
    {"troupe_job_recoveries_total", counter_kind, "job_id", "Recoveries after the failure of a node or role."},
    {"troupe_job_recovery_seconds_total", counter_kind, "job_id", "Time of all recoveries."},
    {"troupe_job_plan_changes_total", counter_kind, "job_id",
     "New plans of the running job: moves, added and lost nodes, recoveries."},
    {"troupe_job_checkpoints_total", counter_kind, "job_id result", "Checkpoints: `saved`, or `failed` (not written)."},
    {"troupe_job_checkpoint_step", gauge_kind, "job_id", "Step of the newest checkpoint."},
    {"troupe_job_checkpoint_timestamp_seconds", gauge_kind, "job_id",
     "When the newest checkpoint was written, in seconds since 1970."},
    {"troupe_job_checkpoint_age_seconds", gauge_kind, "job_id",
     "Time since the newest checkpoint, or since the job began to train."},
    {"troupe_job_checkpoint_seconds", gauge_kind, "job_id", "Time that writing the newest checkpoint took."},
    {"troupe_job_straggler_seconds", gauge_kind, "job_id role node",
     "Time that a straggler costs a step, as it was last named (docs/stragglers.md)."},
    {"troupe_job_steps_at_risk", gauge_kind, "job_id", "Steps that the most costly failure of a node would repeat."},

    // Nodes of the cluster: from the coordinator's daemon.
    {"troupe_node_up", gauge_kind, "node", "1 if the node has joined the cluster and answers."},
    {"troupe_node_state", gauge_kind, "node state", "1 for the node's present state."},
    {"troupe_node_failures_total", counter_kind, "node", "Failures of the node since the coordinator's daemon started."},
    {"troupe_node_starts_total", counter_kind, "node",
     "Daemons of the node that have joined since the coordinator's daemon started."},
    {"troupe_node_steps_at_risk", gauge_kind, "node", "Steps that a failure of the node would repeat."},

    // Roles on this node. `layer`: of stages; empty for other kinds.
    {"troupe_roles", gauge_kind, "job_id kind", "Roles on this node."},
    {"troupe_role_messages_total", counter_kind, "job_id kind layer", "Messages that roles have handled."},
    {"troupe_role_tasks_total", counter_kind, "job_id kind layer", "Tasks that roles have begun."},
    {"troupe_role_busy_seconds_total", counter_kind, "job_id kind layer", "Time that roles have spent in tasks."},
    {"troupe_role_wait_seconds_total", counter_kind, "job_id kind reason",
     "Time in which roles have waited, by reason, sampled at 20 Hz."},
    {"troupe_role_queued_messages", gauge_kind, "job_id kind layer", "Messages that wait in roles."},
    {"troupe_role_packets_in_flight", gauge_kind, "job_id kind layer", "Packets bound to sub-solvers."},
    {"troupe_role_credit_packets", gauge_kind, "job_id kind layer", "Packets that consumers still accept."},
    {"troupe_weights_staleness_clocks", histogram_kind, "job_id",
     "Age of the weights that steps have used, in clocks, by layer and step."},
    {"troupe_gradient_bytes_total", counter_kind, "job_id codec",
     "Bytes of gradient sums that workers have sent to shards or reducers."},
    {"troupe_gradient_plain_bytes_total", counter_kind, "job_id codec", "The same sums before encoding."},
    {"troupe_dropped_messages_total", counter_kind, "reason",
     "Messages that roles, the host or the router dropped (docs/failures.md)."},

    // Connections of this daemon with other nodes of the cluster.
    {"troupe_link_up", gauge_kind, "peer plane", "1 if the node is connected."},
    {"troupe_link_bytes_total", counter_kind, "peer plane direction transport", "Bytes of frames, headers included."},
    {"troupe_link_frames_total", counter_kind, "peer plane direction", "Frames."},
    {"troupe_link_shared_bytes_total", counter_kind, "peer", "Received bytes that were read in the peer's memory, without a copy."},
    {"troupe_link_round_trip_seconds", gauge_kind, "peer plane", "Time of a small frame to the peer and back."},
    {"troupe_link_queued_bytes", gauge_kind, "peer plane", "Bytes that wait to be sent."},
    {"troupe_link_unreturned_bytes", gauge_kind, "peer plane", "Sent bytes whose credit the peer has not returned."},
    {"troupe_link_held_bytes", gauge_kind, "peer plane", "Received bytes that are still in use."},
    {"troupe_connections_refused_total", counter_kind, "plane", "Connections closed before they were authenticated."},

    // GPUs of this node.
    {"troupe_gpu_info", gauge_kind, "gpu name", "Name of a GPU; always 1."},
    {"troupe_gpu_up", gauge_kind, "gpu", "1 if the GPU answers."},
    {"troupe_gpu_memory_size_bytes", gauge_kind, "gpu", "Memory of the GPU."},
    {"troupe_gpu_memory_used_bytes", gauge_kind, "gpu", "Memory of the GPU used by all processes."},
    {"troupe_gpu_pool_held_bytes", gauge_kind, "gpu", "Memory that this process has allocated from the GPU for tensors."},
    {"troupe_gpu_pool_used_bytes", gauge_kind, "gpu", "Part of troupe_gpu_pool_held_bytes that is in use."},
    {"troupe_gpu_pool_peak_bytes", gauge_kind, "gpu", "Largest troupe_gpu_pool_used_bytes since the start."},
    {"troupe_gpu_utilization_ratio", gauge_kind, "gpu", "Fraction of time in which a kernel ran."},
    {"troupe_gpu_memory_utilization_ratio", gauge_kind, "gpu", "Fraction of time in which memory was read or written."},
    {"troupe_gpu_temperature_celsius", gauge_kind, "gpu", "Temperature of the GPU."},
    {"troupe_gpu_power_watts", gauge_kind, "gpu", "Power that the GPU draws."},

    // Certificates, and this page.
    {"troupe_certificate_expiry_timestamp_seconds", gauge_kind, "certificate",
     "When a certificate expires, in seconds since 1970."},
    {"troupe_metrics_requests_total", counter_kind, "result",
     "Requests to the metrics server: served, refused, broken, displaced."},
    {"troupe_metrics_page_seconds", gauge_kind, "", "Time that making the previous page took."},
};

}  // namespace

std::span<const metric> metric_table() { return entries; }

}  // namespace troupe
