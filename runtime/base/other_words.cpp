#include "runtime/base/other_words.hpp"

#include <algorithm>

namespace troupe {
namespace {

struct other_word {
  const char* ours;
  std::vector<const char*> theirs;  // lower case, letters and digits only
};

// size: a row for each word of ours
const std::vector<other_word>& other_words() {
  static const std::vector<other_word> all{
      // layers
      {"linear", {"dense", "fc", "fullyconnected", "innerproduct", "affine", "gemm", "nnlinear", "lazylinear"}},
      {"convolution", {"conv", "conv2d", "conv2dlayer", "convolution2d", "nnconv2d", "lazyconv2d"}},
      {"sequence_convolution", {"conv1d", "convolution1d", "temporalconvolution"}},
      {"deconvolution", {"deconv", "convtranspose", "convtranspose2d", "conv2dtranspose", "transposedconvolution"}},
      {"max_pool", {"pool", "pooling", "pool2d", "maxpool2d", "maxpooling", "maxpooling2d"}},
      {"avg_pool",
       {"averagepool", "averagepooling", "avgpool2d", "averagepooling2d", "globalaveragepooling", "globalaveragepooling2d",
        "globalavgpool", "adaptiveavgpool2d", "meanpool"}},
      {"batch_norm", {"batchnorm1d", "batchnorm2d", "batchnormalization", "bn"}},
      {"layer_norm", {"layernormalization", "ln"}},
      {"group_norm", {"groupnormalization", "gn"}},
      {"instance_norm", {"instancenorm1d", "instancenorm2d", "instancenormalization"}},
      {"lrn", {"localresponsenorm", "localresponsenormalization"}},
      {"dropout", {"dropout1d", "dropout2d", "spatialdropout2d"}},
      {"embedding", {"embed", "embeddings", "embeddingbag"}},
      {"relu", {"leakyrelu", "rectifier", "rectifiedlinear"}},
      {"elu", {"celu"}},
      {"sigmoid", {"logistic"}},
      {"tanh", {"hyperbolictangent"}},
      {"concat", {"cat", "concatenate"}},
      {"eltwise", {"add", "sum", "mul", "multiply", "elementwise", "residual"}},
      {"matmul", {"bmm", "dot", "einsum"}},
      {"reshape", {"view", "unflatten"}},
      {"permute", {"transpose"}},
      {"upsample", {"upsampling2d", "interpolate", "resize"}},
      {"pad", {"zeropad2d", "zeropadding2d"}},
      {"lstm", {"lstmcell"}},
      {"gru", {"grucell"}},
      {"rnn", {"simplernn", "rnncell", "elman"}},
      {"accuracy", {"acc", "categoricalaccuracy", "sparsecategoricalaccuracy"}},
      {"softmax_loss",
       {"crossentropy", "crossentropyloss", "softmaxcrossentropy", "softmaxwithloss", "categoricalcrossentropy",
        "sparsecategoricalcrossentropy", "nll", "nllloss", "logsoftmax", "multinomiallogisticloss"}},
      {"sigmoid_cross_entropy",
       {"bce", "bceloss", "bcewithlogits", "bcewithlogitsloss", "binarycrossentropy", "sigmoidcrossentropyloss"}},
      {"euclidean", {"mse", "mseloss", "meansquarederror", "l2loss", "euclideanloss"}},
      {"hinge", {"hingeloss", "multimarginloss"}},
      // options of layers
      {"outputs",
       {"units", "outfeatures", "outchannels", "filters", "numoutput", "numfilters", "hiddensize", "hidden", "numhidden"}},
      {"kernel", {"kernelsize", "filtersize", "poolsize", "window"}},
      {"pad", {"padding"}},
      {"bias", {"usebias", "biasterm"}},
      {"ratio", {"p", "rate", "dropoutratio", "prob"}},
      {"slope", {"negativeslope", "alpha"}},
      {"epsilon", {"eps"}},
      {"type", {"op", "classname"}},
      {"inputs", {"bottom"}},
      // rules and schedules
      {"sgd", {"gradientdescent", "stochasticgradientdescent", "gd"}},
      {"momentum", {"sgdmomentum", "sgdwithmomentum"}},
      {"nesterov", {"nag", "nesterovmomentum", "sgdnesterov"}},
      {"adam", {"adamoptimizer"}},
      {"adamw", {"adamwoptimizer", "decoupledadam"}},
      {"rmsprop", {"rmspropoptimizer"}},
      {"cosine", {"cosineannealing", "cosineannealinglr", "cosinedecay", "cosinelr"}},
      {"step", {"steplr"}},
      // keys of a job file
      {"job.devices", {"device", "gpu", "gpus", "cuda"}},
      {"job.name", {"experiment", "expname", "experimentname", "runname"}},
      {"job.precision", {"dtype", "amp", "bf16", "fp16"}},
      {"job.seed", {"randomseed", "manualseed", "randomstate"}},
      {"data.batch", {"batchsize", "bs", "trainbatchsize", "perdevicetrainbatchsize"}},
      {"data.path", {"data", "datadir", "datapath", "dataset"}},
      {"data.readers", {"numworkers", "dataworkers"}},
      {"train.dynamics.lr", {"learningrate", "baselr", "initiallr"}},
      {"train.dynamics.decay", {"weightdecay", "wd", "l2"}},
      {"train.dynamics.decay_l1", {"l1", "l1decay", "l1lambda"}},
      {"train.dynamics.rule", {"optimizer", "optim", "opt", "solver"}},
      {"train.dynamics.clip.norm", {"clip", "gradclip", "clipnorm", "gradientclipval", "maxgradnorm"}},
      {"train.dynamics.schedule.kind", {"schedule", "scheduler", "lrschedule", "lrscheduler", "lrschedulertype", "lrpolicy"}},
      {"train.dynamics.schedule.warmup.steps", {"warmup", "warmupsteps", "numwarmupsteps"}},
      {"train.finish.epochs", {"epoch", "maxepochs", "numepochs", "nepochs", "numtrainepochs"}},
      {"train.finish.steps", {"step", "maxsteps", "numsteps", "iterations", "iters", "maxiter", "maxiters"}},
      {"train.finish.patience", {"earlystopping", "earlystoppingpatience"}},
      {"train.finish.time", {"maxtime", "timeout"}},
      {"train.sync.mode", {"sync", "syncmode"}},
      {"eval.batch", {"evalbatchsize", "valbatchsize", "testbatchsize", "perdeviceevalbatchsize"}},
      {"eval.every",
       {"eval", "evalevery", "evalsteps", "evalinterval", "valevery", "valinterval", "valcheckinterval", "testinterval"}},
      {"checkpoint.every", {"saveevery", "savesteps", "saveinterval", "checkpointevery", "checkpointinterval", "snapshot"}},
      {"topology.workers_per_group", {"workers", "nproc", "nprocpernode", "worldsize"}},
      // commands
      {"train", {"fit", "run", "learn", "start"}},
      {"check", {"validate", "lint", "verify"}},
      {"test", {"eval", "evaluate", "validate", "val", "score"}},
      {"predict", {"infer", "inference", "forward", "classify"}},
      {"resume", {"continue", "restart"}},
      {"runs", {"list", "ls", "history", "experiments"}},
      {"plot", {"tensorboard", "curve", "curves"}},
      {"serve", {"deploy"}},
      {"new", {"create"}},
      {"plan", {"summary", "model"}},
      {"time", {"bench", "benchmark", "profile"}},
      {"repl", {"shell", "console"}},
      {"export", {"convert", "save"}},
      {"sample", {"generate"}},
      {"device_query", {"devices", "gpus", "deviceslist"}},
      {"submit", {"train", "fit", "run", "start"}},
      {"jobs", {"list", "ls", "ps", "queue"}},
      {"kill", {"abort", "terminate"}},
      {"quit", {"bye"}}};
  return all;
}

std::string letters_of(std::string_view word) {
  std::string s;
  for (const char c : word) {
    if (c >= 'A' && c <= 'Z')
      s += static_cast<char>(c - 'A' + 'a');
    else if (c != '_' && c != '-' && c != ' ' && c != '.')
      s += c;
  }
  return s;
}

}  // namespace

bool other_spelling(std::string_view a, std::string_view b) { return letters_of(a) == letters_of(b); }

std::vector<std::string> words_for(std::string_view word) {
  const auto simple = letters_of(word);
  std::vector<std::string> found;
  for (const auto& row : other_words())
    if (std::find(row.theirs.begin(), row.theirs.end(), simple) != row.theirs.end()) found.emplace_back(row.ours);
  return found;
}

std::vector<std::string> words_for(std::string_view word, const std::vector<std::string>& candidates) {
  const auto simple = letters_of(word);
  std::vector<std::string> found;
  for (const auto& c : candidates)  // "MaxPool", "Adam": ours in another spelling
    if (c != word && letters_of(c) == simple && !simple.empty()) found.push_back(c);
  for (auto& ours : words_for(word))
    if (std::find(candidates.begin(), candidates.end(), ours) != candidates.end()) found.push_back(std::move(ours));
  return found;
}

}  // namespace troupe
