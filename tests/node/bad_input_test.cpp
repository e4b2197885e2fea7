// Promise 21: every mistake names file, line and column, and says what is wrong. One row a mistake: what replaces which line of a
// sound job (job_fixture.hpp), and where the first error must point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using namespace job_test;
using ::testing::HasSubstr;

struct row {
  const char* what;
  int line;  // that is replaced
  std::string text;
  const char* at;  // "line:column" of the first error
  const char* message;
};

const row rows[] = {
    {"syntax error", 3, "seed = ", "3:8", "expected value"},
    {"unterminated string", 2, "name = \"small", "2:14", "Error while parsing string"},
    {"duplicate key", 3, "name = \"again\"", "3:8", "cannot redefine"},
    {"NUL byte", 3, std::string("seed = 7\0", 9), "3:9", "a NUL byte"},
    {"bad UTF-8", 2, "name = \"sm\xff\"", "2:11", "a byte that is not UTF-8"},
    {"a surrogate in UTF-8", 2, "name = \"\xed\xa0\x80\"", "2:9", "a byte that is not UTF-8"},
    {"deep key", 3, "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r = 1", "3:32", "a key of more than 16 parts"},
    {"unknown table", 34, "[evall]", "34:2", "unknown key 'evall'; did you mean 'eval'?"},
    {"unknown key of the job", 3, "sead = 7", "3:1", "[job]: unknown key 'sead'; did you mean 'seed'?"},
    {"wrong type", 3, "seed = \"seven\"", "3:1", "'seed' must be an integer, it is a string"},
    {"negative seed", 3, "seed = -1", "3:1", "'seed' must be between 0 and"},
    {"a date", 3, "seed = 2020-01-01", "3:1", "it is a date or time"},
    {"a device that no backend drives", 4, "devices = [\"gpu:0\"]", "4:12",
     "[job]: the device 'gpu:0' cannot be used: this build has no GPU backend for jobs; there is: cpu:0, cpu:1, ..."},
    {"one word for a device that no backend drives", 4, "devices = \"gpu:1\"", "4:1", "the device 'gpu:1' cannot be used"},
    {"bad device", 4, "devices = [\"tpu:0\"]", "4:1", "bad device 'tpu:0'"},
    {"precision that is not there", 4, "precision = \"fp16\"", "4:1", "unknown precision 'fp16' (there is: fp32, f64, bf16)"},
    {"precision of another type", 4, "precision = 16", "4:1", "'precision' must be a string, it is an integer"},
    {"unknown source", 6, "source = \"synthetik\"", "6:1", "unknown source 'synthetik'; did you mean 'synthetic'?"},
    {"no source", 6, "", "5:2", "[data]: it needs a source"},
    {"option of the source out of range", 7, "shape = [2, 8, 8]\nclasses = 0", "8:1", "'classes' must be at least 1"},
    {"mixed list", 7, "shape = [2, \"x\"]", "7:9", "[data]: 'shape' is a list, which no option takes in this form"},
    {"crop larger than the image", 7, "shape = [2, 8, 8]\naugment = { mirror = true, crop = 9 }", "8:28",
     "[data.augment]: a crop of 9 is more than the images' height 8"},
    {"unknown key of augment", 7, "shape = [2, 8, 8]\naugment = { crop = 6, mirrored = true }", "8:23",
     "[data.augment]: unknown key 'mirrored'; did you mean 'mirror'?"},
    {"augment of a wrong type", 7, "shape = [2, 8, 8]\naugment = true", "8:1", "'augment' must be a table, it is a boolean"},
    {"augment out of range", 7, "shape = [2, 8, 8]\naugment = { pad = -1 }", "8:13", "option 'pad' must be at least 0"},
    {"means of channels that are not there", 7, "shape = [2, 8, 8]\naugment = { mean = [1, 2, 3] }", "8:13",
     "mean has 3 numbers, but the images have 2 channels"},
    {"augment of what is no image", 7, "shape = [8]\naugment = { mirror = true }", "8:1",
     "augment is for images [channels, height, width]; this source yields 8"},
    {"a crop that the net cannot take", 7, "shape = [2, 8, 8]\naugment = { crop = 2 }", "10:1",
     "layer 'conv1': wants an image no smaller than the kernel's extent 3x3 (pad 0), got 2x2x2x2"},
    {"no readers", 7, "shape = [2, 8, 8]\nreaders = 0", "8:1", "'readers' must be between 1 and 64, it is 0"},
    {"batch zero", 8, "batch = 0", "8:1", "'batch' must be between 1 and"},
    {"batch that does not divide", 8, "batch = 10", "37:1", "packets must divide the batch: 10 examples"},
    {"batch larger than the data", 7, "shape = [2, 8, 8]\nexamples = 4", "9:1", "larger than the training split of 4 examples"},
    {"layer without a name", 10, "", "9:1", "a layer: it needs a name"},
    {"duplicate layer", 17, "name = \"conv1\"", "17:1", "there are two layers called 'conv1'; the other one is at job.toml:10:1"},
    {"reserved layer name", 10, "name = \"label\"", "10:1", "a layer cannot be called 'label'"},
    {"unknown layer type", 11, "type = \"convolutoin\"", "11:1", "unknown layer type 'convolutoin'; did you mean 'convolution'?"},
    {"layer without a type", 11, "", "9:1", "layer 'conv1': it needs a type"},
    {"missing input", 19, "", "16:1", "layer 'ip1': it has no inputs: say where its values come from, as in inputs = [\"conv1\"]"},
    {"unknown input", 19, "inputs = [\"data\",\n  \"con1\"]", "20:3", "layer 'ip1': unknown input 'con1'; did you mean 'conv1'?"},
    {"inputs of a wrong type", 19, "inputs = [\"conv1\", 3]", "19:20", "'inputs' must be a list of strings, here is an integer"},
    {"too many inputs", 19, "inputs = [\"conv1\", \"data\"]", "19:1", "a linear layer takes 1 input, not 2 (conv1, data)"},
    {"cycle", 12, "inputs = [\"ip1\"]", "12:1", "layer 'conv1': the layers form a cycle: conv1 -> ip1 -> conv1"},
    {"shapes that do not fit", 20,
     "outputs = 10\n[[layer]]\nname = \"sum\"\ntype = \"eltwise\"\ninputs = [\"data\", \"conv1\"]\n[[layer]]\n"
     "name = \"loss2\"\ntype = \"softmax_loss\"\ninputs = [\"sum\", \"label\"]",
     "21:1", "layer 'sum': wants inputs of one shape, got 2x2x8x8, 2x4x6x6"},
    {"an image layer behind a flat one", 16, "[[layer]]\nname = \"pool\"\ntype = \"max_pool\"\ninputs = [\"ip1\"]\n[[layer]]",
     "16:1", "layer 'pool': wants one input [N, C, H, W], got 2x10"},
    {"kernel 0", 14, "kernel = 0", "14:1", "layer 'conv1': give 'kernel'"},
    {"no kernel", 14, "", "9:1", "layer 'conv1': give 'kernel'"},
    {"kernel larger than the image", 14, "kernel = 9", "9:1",
     "layer 'conv1': wants an image no smaller than the kernel's extent 9x9 (pad 0), got 2x2x8x8"},
    {"outputs not in groups", 14, "kernel = 3\ngroups = 3", "15:1", "'outputs' must be a multiple of 'groups'"},
    {"channels not in groups", 13, "outputs = 4\ngroups = 4", "9:1",
     "layer 'conv1': wants channels in a multiple of groups = 4, got 2x2x8x8"},
    {"option out of range", 14, "kernel = 3\nstride = 0", "15:1", "option 'stride' must be at least 1"},
    {"required option missing", 20, "", "16:1", "layer 'ip1': option 'outputs' is missing"},
    {"option of another type", 20, "outputs = 10\nkernel = 3", "21:1", "layer 'ip1': unknown key 'kernel'"},
    {"unknown filler", 15, "weight_filler = { kind = \"gausian\", std = 0.1 }", "15:19", "did you mean 'gaussian'?"},
    {"unknown key of a filler", 15, "weight_filler = { kind = \"gaussian\", sdt = 0.1 }", "15:38", "did you mean 'std'?"},
    {"filler out of range", 15, "weight_filler = { kind = \"gaussian\", std = -1 }", "15:38", "option 'std' must be at least 0"},
    {"filler that is no table", 15, "weight_filler = \"gaussian\"", "15:1", "option 'weight_filler' must be a table"},
    {"loss_weight of a layer that is no loss", 14, "kernel = 3\nloss_weight = 0.3", "15:1",
     "layer 'conv1': a loss_weight goes with a loss layer, not with convolution"},
    {"NaN as a scale", 14, "kernel = 3\nlr_scale = nan", "15:1", "'lr_scale' must be finite and at least 0, it is nan"},
    {"unknown partition", 14, "kernel = 3\npartition = \"features\"", "15:1",
     "unknown partition 'features'; did you mean 'feature'?"},
    {"unknown node", 14, "kernel = 3\nplace = \"locall\"", "15:1",
     "layer 'conv1': unknown node 'locall'; did you mean 'local'? (there is: local)"},
    {"unknown wire", 14, "kernel = 3\nwire = \"fp16\"", "15:1", "unknown wire 'fp16' (there is: fp32, bf16, int8)"},
    {"unknown node in a list", 14, "kernel = 3\npartition = \"feature\"\nplace = [\"local\", \"n9\"]", "16:19",
     "layer 'conv1': unknown node 'n9' (there is: local)"},
    {"a place on a device", 14, "kernel = 3\nplace = \"local/cpu:0\"", "15:1",
     "layer 'conv1': place 'local/cpu:0' names a device: a layer is placed on a node, and its work goes to whichever of the node's "
     "devices is free; write 'local'"},
    {"a place on a device in a list", 14, "kernel = 3\npartition = \"feature\"\nplace = [\"local\", \"local/cpu:7\"]", "16:19",
     "layer 'conv1': place 'local/cpu:7' names a device"},
    {"places of a wrong type", 14, "kernel = 3\nplace = [\"local\", 2]", "15:19", "'place' must be a list of strings"},
    {"fractions that do not sum to 1", 14, "kernel = 3\nfraction = [0.5, 0.4]", "15:1",
     "layer 'conv1': fractions must sum to 1, these sum to 0.9"},
    {"fractions of a second layer", 20, "outputs = 10\nfraction = [0.5, 0.4]", "21:1",
     "layer 'ip1': fractions must sum to 1, these sum to 0.9"},
    {"fractions of places", 20, "outputs = 10\npartition = \"feature\"\nplace = [\"local\", \"local\"]\nfraction = [0.5, 0.6]",
     "23:1", "layer 'ip1': fractions must sum to 1, these sum to 1.1"},
    {"a fraction too many", 14, "kernel = 3\nfraction = [0.5, 0.25, 0.25]", "15:1", "layer 'conv1': 3 fractions for 2 workers"},
    {"a fraction too few", 20, "outputs = 10\npartition = \"feature\"\nplace = [\"local\", \"local\"]\nfraction = 1", "23:1",
     "layer 'ip1': 1 fractions for 2 places"},
    {"a negative fraction", 14, "kernel = 3\nfraction = [1.5, -0.5]", "15:1", "'fraction' must be between 0 and 1, it is 1.5"},
    {"a worker without a packet", 14, "kernel = 3\nfraction = [0.9, 0.1]", "15:1",
     "layer 'conv1': part 1 gets none of the 4 packets of a step"},
    {"a place without a packet", 14, "kernel = 3\npartition = \"batch\"\nplace = [\"local\", \"local\"]\nfraction = [0.8, 0.2]",
     "17:1", "layer 'conv1': part 1 gets none of the 4 packets of a step"},
    {"more places than packets", 14,
     "kernel = 3\npartition = \"batch\"\nplace = [\"local\", \"local\", \"local\", \"local\", \"local\"]", "16:1",
     "layer 'conv1': part 1 gets none of the 4 packets of a step"},
    {"a part without a feature", 20, "outputs = 10\npartition = \"feature\"\nfraction = [0.99, 0.01]", "22:1",
     "layer 'ip1': part 1 gets none of its 10 features"},
    {"split by feature of a layer that cannot be", 24, "inputs = [\"ip1\", \"label\"]\npartition = \"feature\"", "25:1",
     "layer 'loss': a layer of type 'softmax_loss' cannot be split by feature (it supports: batch, none)"},
    {"split by feature of a grouped convolution", 14, "kernel = 3\ngroups = 2\npartition = \"feature\"", "16:1",
     "layer 'conv1': a layer of type 'convolution' cannot be split by feature (it supports: batch, none)"},
    {"split along the input of a layer that cannot be", 24, "inputs = [\"ip1\", \"label\"]\npartition = \"input\"", "25:1",
     "layer 'loss': a layer of type 'softmax_loss' cannot be split along its input (it supports: batch, none)"},
    {"split along the input of a grouped convolution", 14, "kernel = 3\ngroups = 2\npartition = \"input\"", "16:1",
     "layer 'conv1': a layer of type 'convolution' cannot be split along its input (it supports: batch, none)"},
    {"a part without a feature of the input", 14, "kernel = 3\npartition = \"input\"\nplace = [\"local\", \"local\", \"local\"]",
     "16:1", "gets none of its input's 2 features"},
    {"none in two places", 20, "outputs = 10\npartition = \"none\"\nplace = [\"local\", \"local\"]", "22:1",
     "layer 'ip1': partition = \"none\" is one place, not 2"},
    {"a fraction of what is not split", 20, "outputs = 10\npartition = \"none\"\nfraction = 1", "22:1",
     "layer 'ip1': a fraction of a layer that is not split"},
    {"bad phase", 14, "kernel = 3\nphase = \"tests\"", "15:1", "unknown phase 'tests'; did you mean 'test'?"},
    {"label to a convolution", 12, "inputs = [\"label\"]", "12:11", "layer 'conv1': input 0 of a convolution layer takes values"},
    {"too few scores", 20, "outputs = 9", "24:11",
     "layer 'loss': its input 'ip1' (2x9) has 9 scores an example, but the data has 10 classes"},
    {"unused layer", 20, "outputs = 10\n[[layer]]\nname = \"idle\"\ntype = \"relu\"\ninputs = [\"ip1\"]", "21:1",
     "layer 'idle': its output is used by no layer"},
    {"no loss", 23, "type = \"accuracy\"", "1:2", "no layer is a loss in training"},
    {"a table where there is a list", 16, "[layer]", "16:1", "cannot redefine existing array 'layer' as table"},
    {"NaN learning rate", 31, "lr = nan", "31:1", "[train.dynamics]: 'lr' must be finite and at least 0, it is nan"},
    {"infinite learning rate", 31, "lr = inf", "31:1", "'lr' must be finite and at least 0, it is inf"},
    {"negative learning rate", 31, "lr = -0.1", "31:1", "'lr' must be finite and at least 0, it is -0.1"},
    {"unknown rule", 30, "rule = \"momentun\"", "30:1", "unknown update rule 'momentun'; did you mean 'momentum'?"},
    {"no rule", 30, "", "29:8", "it needs a rule (there is: "},
    {"option of another rule", 30, "rule = \"sgd\"", "32:1", "unknown key 'momentum'"},
    {"NaN option of a rule", 32, "momentum = nan", "32:1", "option 'momentum' must be"},
    {"unknown schedule", 33, "schedule = { kind = \"stepp\" }", "33:14", "unknown schedule 'stepp'; did you mean 'step'?"},
    {"schedule without its option", 33, "schedule = { kind = \"step\" }", "33:1", "option 'every' is missing"},
    {"steps that do not rise", 33, "schedule = { kind = \"fixed_step\", at = [5, 5] }", "33:35",
     "option 'at' must list steps in rising"},
    {"a factor too many", 33, "schedule = { kind = \"fixed_step\", at = [5], factors = [1, 2] }", "33:45",
     "option 'factors' must list one factor for each step of 'at': 1, not 2"},
    {"warm-up as a number", 33, "schedule = { kind = \"fixed\", warmup = 500 }", "33:30",
     "'warmup' must be a table, it is an integer"},
    {"warm-up without steps", 33, "schedule = { kind = \"fixed\", warmup = { from = 0.1 } }", "33:30", "it needs steps"},
    {"warm-up of no steps", 33, "schedule = { kind = \"fixed\", warmup = { steps = 0 } }", "33:41",
     "'steps' must be between 1 and"},
    {"warm-up from above", 33, "schedule = { kind = \"fixed\", warmup = { steps = 5, from = 2 } }", "33:52",
     "'from' must be between 0 and 1, it is 2"},
    {"unknown key of the warm-up", 33, "schedule = { kind = \"fixed\", warmup = { steps = 5, form = 1 } }", "33:52",
     "did you mean 'from'?"},
    {"clip as a number", 33, "clip = 5", "33:1", "'clip' must be a table, it is an integer"},
    {"clip of nothing", 33, "clip = {}", "33:1", "say what is clipped: value = 5 (each element) or norm = 5"},
    {"clip twice", 33, "clip = { value = 5, norm = 5 }", "33:21", "clip by value or by norm, not by both"},
    {"clip to nothing", 33, "clip = { value = 0 }", "33:10", "'value' must be more than 0"},
    {"clip below nothing", 33, "clip = { norm = -1 }", "33:10", "'norm' must be finite and at least 0, it is -1"},
    {"unknown key of clip", 33, "clip = { valeu = 5 }", "33:1", "say what is clipped"},
    {"unknown scale with the batch", 33, "lr_scale = \"cubic\"\nbase_batch = 64", "33:1",
     "unknown lr_scale 'cubic' (there is: none, linear, sqrt)"},
    {"scale without its base", 33, "lr_scale = \"sqrt\"", "33:1", "it needs base_batch: the batch that lr was chosen for"},
    {"base without a scale", 33, "base_batch = 64", "33:1", "'base_batch' says nothing without lr_scale"},
    {"base of nothing", 33, "lr_scale = \"linear\"\nbase_batch = 0", "34:1", "'base_batch' must be between 1 and"},
    {"Adam without its share", 30, "rule = \"adam\"\nbeta1 = 1.0", "31:1", "option 'beta1' must be at least 0 and at most 1"},
    {"unknown sync condition", 27, "sync = { mode = \"bsp\", when = { kind = \"evry\" } }", "27:33",
     "unknown sync condition 'evry'; did you mean 'every'? (there is: drift, every, schedule)"},
    {"sync condition without a kind", 27, "sync = { mode = \"bsp\", when = { steps = 3 } }", "27:24",
     "it needs a kind (there is: drift, every, schedule)"},
    {"sync condition every 0 steps", 27, "sync = { mode = \"bsp\", when = { kind = \"every\", steps = 0 } }", "27:49",
     "option 'steps' must be at least 1"},
    {"periods that do not match", 27, "sync = { mode = \"bsp\", when = { kind = \"schedule\", periods = [1, 2] } }", "27:52",
     "option 'periods' must list one period more than 'at' lists steps: 1, not 2"},
    {"sync condition for a mode that takes none", 27, "sync = { mode = \"bsp\", when = { kind = \"every\", steps = 2 } }", "27:24",
     "mode 'bsp' decides by itself when to exchange: it takes no 'when'"},
    {"unknown mode", 27, "sync = { mode = \"bzp\" }", "27:10", "unknown mode 'bzp'; did you mean 'bsp'? (there is: "},
    {"mode as a word", 27, "sync = \"bsp\"", "27:1", "'sync' must be a table, it is a string"},
    {"unknown key of a mode", 27, "sync = { mode = \"ssp\", stalenes = 3 }", "27:24",
     "unknown key 'stalenes'; did you mean 'staleness'?"},
    {"option of another mode", 27, "sync = { mode = \"bsp\", staleness = 3 }", "27:24", "unknown key 'staleness'"},
    {"negative staleness", 27, "sync = { mode = \"ssp\", staleness = -1 }", "27:24", "'staleness' must be at least 0"},
    {"staleness in words", 27, "sync = { mode = \"ssp\", staleness = \"some\" }", "27:24", "'staleness' must be"},
    {"alpha of 1", 27, "sync = { mode = \"easgd\", alpha = 1.0 }", "27:26", "alpha must be at least 0 and less than 1"},
    {"negative alpha", 27, "sync = { mode = \"easgd\", alpha = -0.5 }", "27:26", "'alpha' must be at least 0"},
    {"tau of 0", 27, "sync = { mode = \"easgd\", tau = 0 }", "27:26", "'tau' must be at least 1"},
    {"unknown variant", 27, "sync = { mode = \"easgd\", variant = \"snyc\" }", "27:26", "'variant'"},
    {"a condition for synchronous easgd", 27,
     "sync = { mode = \"easgd\", variant = \"sync\", when = { kind = \"every\", steps = 2 } }", "27:26",
     "exchanges every tau steps, the same for all workers: it takes no `when`"},
    {"eamsgd without nesterov", 27, "sync = { mode = \"eamsgd\" }", "27:10",
     "eamsgd steps with Nesterov's momentum: set rule = \"nesterov\""},
    {"n_push of 0", 27, "sync = { mode = \"downpour\", n_push = 0 }", "27:29", "'n_push' must be at least 1"},
    {"downpour's groups that push now and then", 27, "sync = { mode = \"downpour\", n_push = 2 }", "27:29",
     "n_push must be 1 when workers_per_group is 2"},
    {"portion of 0", 27, "sync = { mode = \"sandblaster\", portion = 0 }", "27:32", "'portion' must be at least 1"},
    {"portion that is no power of two", 27, "sync = { mode = \"sandblaster\", portion = 3 }", "27:32",
     "portion must be a power of two"},
    {"sync_freq of 0", 27, "sync = { mode = \"group_sync\", sync_freq = 0 }", "27:31", "'sync_freq' must be at least 1"},
    {"a tree for ssp", 27, "sync = { mode = \"ssp\" }\nexchange = { reducer = \"tree\" }", "28:14",
     "ssp does not go through reducers"},
    {"two groups in step", 39, "workers_per_group = 1\nworker_groups = 2", "40:1",
     "bsp keeps all workers in step: worker_groups must be 1, it is 2"},
    {"server groups for some", 39, "workers_per_group = 1\nworker_groups = 4\nserver_groups = 2", "41:1",
     "server_groups must be 1 (all worker groups share it) or equal worker_groups"},
    {"unknown sampler", 26, "sampler = { kind = \"shufle\" }", "26:13", "unknown sampler 'shufle'; did you mean 'shuffle'?"},
    {"unknown option of a sampler", 26, "sampler = { kind = \"shard\", deall = \"random\" }", "26:29",
     "unknown key 'deall'; did you mean 'deal'?"},
    {"unknown word of a sampler", 26, "sampler = { kind = \"shard\", deal = \"cards\" }", "26:29", "'deal'"},
    {"order that cannot be served", 26, "sampler = { kind = \"served\", order = \"replicate\" }", "26:30", "'order'"},
    {"option of another sampler", 26, "sampler = { kind = \"seeded\", order = \"shuffle\" }", "26:30", "unknown key 'order'"},
    {"cd with no layer that learns alone", 26, "algorithm = \"cd\"", "26:1",
     "algorithm = \"cd\" trains layers that have a loss of their own, but there is none (rbm): use \"bp\""},
    {"bptt with nothing to carry", 26, "algorithm = \"bptt\"", "26:1",
     "algorithm = \"bptt\" carries state from step to step, but no layer has any (rnn, lstm, gru): use \"bp\""},
    {"reducer that is not built", 26, "exchange = { reducer = \"ring\" }", "26:14",
     "reducer = \"ring\" is not built yet; there is: server, tree, auto"},
    {"compression that is not built", 26, "exchange = { compress = \"fp16\" }", "26:14",
     "compress = \"fp16\" is not built yet; there is: none"},
    {"an end for each worker", 28, "finish = { epochs = 1, who = \"each\" }", "28:24",
     "[train.finish]: who = \"each\" is not built yet; there is: all, any"},
    {"negative epochs", 28, "finish = { epochs = -1 }", "28:12", "'epochs' must be between 1 and"},
    {"wrong unit", 28, "finish = { time = \"10parsecs\" }", "28:12", "'time' must be a time with a unit"},
    {"time without a unit", 28, "finish = { time = 600 }", "28:12", "'time' must be a string, it is an integer"},
    {"no end", 28, "finish = { who = \"all\" }", "28:1", "say when to stop"},
    {"no finish", 28, "", "25:2", "it needs finish = { ... }"},
    {"target without evaluations", 35, "every = 0", "28:24",
     "[train.finish]: 'target_accuracy' needs evaluations: set [eval] every"},
    {"unknown finish condition", 28, "finish = { custom = { kind = \"patiance\" } }", "28:23",
     "unknown finish condition 'patiance'; did you mean 'patience'?"},
    {"finish condition without its option", 28, "finish = { custom = { kind = \"time\" } }", "28:12",
     "option 'seconds' is missing"},
    {"target beyond 1", 28, "finish = { target_accuracy = 1.5 }", "28:12", "'target_accuracy' must be between 0 and 1, it is 1.5"},
    {"unknown key of eval", 35, "evry = 50", "35:1", "[eval]: unknown key 'evry'; did you mean 'every'?"},
    {"unknown sampler of eval", 35, "every = 50\nsampler = { kind = \"samples\", examples = 9 }", "36:13",
     "unknown evaluation sampler 'samples'; did you mean 'sample'? (there is: all, lanes, sample)"},
    {"sample of unknown size", 35, "every = 50\nsampler = { kind = \"sample\" }", "36:1", "option 'examples' is missing"},
    {"sample of nothing", 35, "every = 50\nsampler = { kind = \"sample\", examples = 0 }", "36:30",
     "'examples' must be at least 1"},
    {"sample larger than the split", 35, "every = 50\nsampler = { kind = \"sample\", examples = 5000 }", "36:30",
     "[eval] sampler: a sample of 5000 examples from a split of 1000"},
    {"unknown split", 35, "every = 50\nsplit = \"trian\"", "36:1", "unknown split 'trian'; did you mean 'train'?"},
    {"packets that do not divide the batch of eval", 35, "every = 50\nbatch = 10", "36:1",
     "packets must divide the batch of [eval] too: 10 examples, 4 packets"},
    {"fewer packets than workers", 37, "packets = 1", "37:1", "fewer packets than workers: 1 for 2"},
    {"packets beyond 16 bits", 37, "packets = 70000", "37:1", "'packets' must be between 1 and 65535, it is 70000"},
    {"unknown rule of weights", 37, "packets = 4\nweights = \"stahs\"", "38:1", "unknown weights 'stahs'; did you mean 'stash'?"},
    {"unknown fuse", 37, "packets = 4\nfuse = \"atuo\"", "38:1", "unknown fuse 'atuo'; did you mean 'auto'?"},
    {"no workers", 39, "workers_per_group = 0", "39:1", "'workers_per_group' must be between 1 and 65535, it is 0"},
    {"not a boolean", 39, "colocated = 1", "39:1", "'colocated' must be true or false, it is an integer"},
    {"plugin that is not there", 1, "plugins = [\"libswish.so\"]\n[job]", "1:12",
     "there is no plugin 'libswish.so' (looked for 'libswish.so')"},
};

TEST(bad_input, every_mistake_names_line_and_column) {
  EXPECT_GE(std::size(rows), 30u);
  for (const auto& r : rows) {
    SCOPED_TRACE(r.what);
    auto lines = sound_lines();
    lines[static_cast<std::size_t>(r.line) - 1] = r.text;
    const auto e = mistakes_of(text_of(lines));
    ASSERT_FALSE(e.empty());
    const auto first = e.front().to_string();
    EXPECT_EQ(first.rfind("job.toml:" + std::string(r.at) + ": ", 0), 0u) << shown(e);
    EXPECT_THAT(first, HasSubstr(r.message)) << shown(e);
  }
}

// What two lines, or job and cluster together, say wrong.
TEST(bad_input, a_topology_that_does_not_suit_the_mode) {
  const auto at = [](const std::string& sync, const std::string& topology, const std::vector<node_spec>& nodes) {
    auto lines = sound_lines();
    lines[26] = sync;
    lines[38] = topology;
    auto spec = parse_job(text_of(lines), "job.toml", *all_tables(), {});
    if (auto* e = std::get_if<diagnostics>(&spec)) return shown(*e);
    auto job = prepare_job(std::get<job_spec>(std::move(spec)), all_tables(), nodes);
    auto* e = std::get_if<diagnostics>(&job);
    return e ? shown(*e) : std::string();
  };
  EXPECT_THAT(at("sync = { mode = \"group_sync\" }", "worker_groups = 2", local_node()),
              HasSubstr("job.toml:38:2: group_sync gives every worker group its own server group"));
  EXPECT_THAT(at("sync = { mode = \"group_sync\" }", "worker_groups = 4\nserver_groups = 1", local_node()),
              HasSubstr("job.toml:40:1: group_sync gives every worker group its own server group"));
  EXPECT_EQ(at("sync = { mode = \"group_sync\" }", "worker_groups = 2\nserver_groups = 2", local_node()), "");
  EXPECT_THAT(at("sync = { mode = \"easgd\" }", "worker_groups = 2\nserver_groups = 2", local_node()),
              HasSubstr("job.toml:40:1: easgd has one centre"));
  auto nodes = local_node();
  nodes.push_back(nodes.front());
  nodes[0].name = "n1";
  nodes[1].name = "n2";
  const std::string hogwild = "sync = { mode = \"hogwild\" }";
  EXPECT_THAT(at(hogwild, "workers_per_group = 2", nodes), HasSubstr("job.toml:38:2: hogwild shares memory: worker1 on node 'n2'"));
  EXPECT_EQ(at(hogwild, "worker_groups = 2\nserver_groups = 2", nodes), "") << "an array a node";
  EXPECT_EQ(at(hogwild, "workers_per_group = 4", local_node()), "");
}

// Layers that are placed, and what does not go with them.
TEST(bad_input, what_placed_layers_do_not_go_with) {
  const auto at = [](const std::string& sync, const std::string& topology) {
    auto lines = sound_lines();
    lines[19] = "outputs = 10\nplace = \"local\"";
    lines[26] = sync;
    lines[38] = topology;
    return shown(mistakes_of(text_of(lines)));
  };
  const std::string two = "workers_per_group = 2", bsp = "sync = { mode = \"bsp\" }";
  EXPECT_EQ(at(bsp, two), "");
  for (const char* mode : {"ssp", "downpour", "easgd", "gossip", "hogwild", "sandblaster"})
    EXPECT_THAT(at(std::string("sync = { mode = \"") + mode + "\" }", two),
                HasSubstr(std::string("job.toml:28:10: mode '") + mode +
                          "' needs every layer beside every worker, and this job places or "
                          "splits some (modes that can: bsp)"));
  EXPECT_THAT(
      at(bsp + "\nexchange = { reducer = \"tree\" }", two),
      HasSubstr("job.toml:29:14: reducer \"tree\" needs every layer beside every worker; use \"server\" with placed layers"));
  EXPECT_THAT(at("sync = { mode = \"downpour\" }", "workers_per_group = 1\nworker_groups = 2"),
              HasSubstr("job.toml:41:1: layers that are placed or split by feature serve one worker group, there are 2"));
}

TEST(bad_input, a_node_that_would_hold_more_than_it_may) {
  auto lines = sound_lines();
  lines[19] = "outputs = 10\nplace = \"fc\"";
  auto spec = parse_job(text_of(lines), "job.toml", *all_tables(), {});
  auto nodes = local_node();
  nodes.push_back(nodes.front());
  nodes[1].name = "fc";
  nodes[1].at = {"cluster.toml", 9, 3};
  nodes[1].memory_limit = 1 << 20;
  EXPECT_TRUE(std::holds_alternative<std::shared_ptr<prepared_job>>(prepare_job(std::get<job_spec>(spec), all_tables(), nodes)));
  nodes[1].memory_limit = 1000;
  const auto job = prepare_job(std::get<job_spec>(spec), all_tables(), nodes);
  const auto* e = std::get_if<diagnostics>(&job);
  ASSERT_TRUE(e);
  EXPECT_THAT(shown(*e), HasSubstr("cluster.toml:9:3: over budget: node 'fc' would hold about "));
}

struct override_row {
  const char* what;
  std::string text;
  const char* message;
};
const override_row override_rows[] = {
    {"no value", "train.finish.epochs", "an override is written key=value"},
    {"no key", "=3", "an override is written key=value"},
    {"empty part", "train..epochs=3", "bad key 'train..epochs'"},
    {"unknown key", "train.finish.epoch=1", "unknown key 'epoch'; did you mean 'epochs'?"},
    {"unknown table", "trian.finish.epochs=1", "unknown key 'trian'; did you mean 'train'?"},
    {"wrong value", "train.finish.epochs=-3", "'epochs' must be between 1 and"},
    {"wrong type", "data.batch=[1, 2]", "'batch' must be an integer, it is a list"},
    {"bad value", "data.batch=[1, 2", "bad value '[1, 2'"},
    {"two values", "data.batch=1\nseed=2", "bad value '1\\x0aseed=2'"},
    {"through a value", "data.batch.size=1", "'batch' is an integer, not a table"},
    {"unknown layer", "layer.conv9.outputs=3", "there is no layer called 'conv9'"},
    {"not finite", "train.dynamics.lr=nan", "'lr' must be finite and at least 0, it is nan"},
};

TEST(bad_input, every_bad_override_names_itself) {
  for (const auto& r : override_rows) {
    SCOPED_TRACE(r.what);
    const auto e = mistakes_of(text_of(sound_lines()), {r.text});
    ASSERT_FALSE(e.empty());
    EXPECT_EQ(e.front().to_string().rfind("--set ", 0), 0u) << shown(e);
    EXPECT_THAT(e.front().to_string(), HasSubstr(r.message));
  }
}

TEST(bad_input, a_finish_condition_that_needs_evaluations) {
  auto lines = sound_lines();
  lines[27] = "finish = { custom = { kind = \"patience\", evaluations = 3 } }";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
  lines[34] = "every = 0";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))),
            "job.toml:28:23: [train.finish.custom]: 'patience' needs evaluations: set [eval] every\n");
}

TEST(bad_input, whole_files) {
  const auto first = [](const std::string& text) {
    const auto e = mistakes_of(text);
    return e.empty() ? std::string("no error") : e.front().to_string();
  };
  EXPECT_EQ(first(""), "job.toml:1:1: there is no [data] table");
  EXPECT_EQ(mistakes_of("").size(), 3u) << "data, layers, train";
  EXPECT_EQ(first("\xff\xfe"), "job.toml:1:1: a byte that is not UTF-8");
  EXPECT_EQ(first("= 3\n").rfind("job.toml:1:1: ", 0), 0u);
}

// The data's files: the error stands at the key that named them.
TEST(bad_input, data_files) {
  const auto folder = std::filesystem::temp_directory_path() / "troupe_bad_input_test";
  std::filesystem::create_directories(folder);
  auto lines = sound_lines();
  lines[5] = "source = \"idx\"";
  lines[6] = "path = \"" + folder.string() + "\"";
  auto e = mistakes_of(text_of(lines));
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].to_string().rfind("job.toml:7:1: ", 0), 0u) << shown(e);
  EXPECT_THAT(e[0].message, HasSubstr("train-images-idx3-ubyte"));
  const std::string header("\0\0\x08\x03\0\0\0\x0a\0\0\0\x08\0\0\0\x08", 16);
  std::ofstream(folder / "train-images-idx3-ubyte", std::ios::binary) << header << std::string(100, 'x');
  e = mistakes_of(text_of(lines));
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].to_string().rfind("job.toml:7:1: ", 0), 0u) << shown(e);
  lines[6] += "\ntrain_labels = 5";
  EXPECT_THAT(shown(mistakes_of(text_of(lines))), HasSubstr("job.toml:8:1: [data]: option 'train_labels' must be a text"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe
