package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train/setting"
)

// flagError says in the command's own words what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		lacking *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return pflag.ErrHelp
	case errors.As(err, &unknown):
		if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() {
			if r, is := recognize(args[0]); is && cmd.Name() == importName {
				return r.unknownFlag(cmd, unknown)
			}
			if err := cmd.ValidateArgs(args); err != nil {
				return err // the flags of a mistyped command are no mistake
			}
		}
		return unknownFlag(cmd, unknown)
	case errors.As(err, &lacking):
		return refusal.Errorf("--%s needs a value; %s --help says which", lacking.GetFlag().Name, cmd.CommandPath())
	case errors.As(err, &invalid):
		return invalidValue(invalid)
	case errors.As(err, &syntax):
		return refusal.Errorf("%s is no flag; %s --help lists them", syntax.GetSpecifiedFlag(), cmd.CommandPath())
	}
	return err
}

// foreignFlags says what there is for flags of training scripts of DGL, PyG and OGB, by flag.
var foreignFlags = meant([][2]string{
	{"--layers is the number of layers", "num-layers n-layers nlayers num-conv-layers depth"},
	{
		"--hidden is the width of hidden layers",
		"hidden-channels hidden-dim hidden-size hidden-feats num-hidden n-hidden nhid hid hid-dim " +
			"dim embed-dim num-units",
	},
	{"--heads is the number of heads", "num-heads n-heads nheads nhead num-attention-heads"},
	{"--output-heads is the number of heads of the last layer", "num-out-heads n-out-heads out-heads"},
	{
		"--epochs is the number of epochs",
		"num-epochs n-epochs nepochs max-epochs num-epoch steps iterations",
	},
	{"--lr is the learning rate", "learning-rate rate eta"},
	{"--weight-decay is the weight decay", "wd l2 l2norm l2-norm l2-penalty decay"},
	{"--dropout is the dropout between layers", "drop drop-rate dropout-rate p-drop"},
	{"--attention-dropout is the dropout on attention coefficients", "attn-drop attn-dropout att-dropout"},
	{"--drop-edge leaves out edges in each epoch", "dropedge edge-dropout edge-drop dropout-edge"},
	{"--label-input has labels of training vertices as input", "use-labels use-label label-reuse labels-as-input mask-rate label-rate"},
	{"--input-dropout is the dropout on the input features", "in-drop feat-drop input-drop"},
	{
		"--patience is the number of epochs without improvement before it stops",
		"early-stop early-stopping es-patience",
	},
	{"--bases is the number of bases of R-GCN", "num-bases n-bases"},
	{"--optimizer is the optimizer", "optim opt"},
	{"--activation is the activation", "act nonlinearity"},
	{
		"--residual adds each layer's input to its output",
		"skip skip-connections residual-connections use-residual",
	},
	{
		"--norm batch, layer, graph or pair normalises after each hidden layer",
		"batch-norm batchnorm use-bn bn layer-norm layernorm graph-norm graphnorm pair-norm pairnorm",
	},
	{"--model gives the model", "arch conv conv-type gnn gnn-type aggregator-type aggr"},
	{
		"the first argument is the graph: weft train DATASET|STORE",
		"dataset data graph graph-name dataset-name root data-dir data-path",
	},
	{"--seed is the seed", "random-seed rng-seed manual-seed"},
	{
		"--eval-every is the number of epochs between two evaluations",
		"eval-steps log-steps eval-freq log-every",
	},
	{
		"--out is the directory of the run",
		"output output-dir save-dir log-dir logdir checkpoint-dir save save-path model-path",
	},
	{
		"--checkpoint-every is the number of epochs, or the time, between two checkpoints",
		"checkpoint ckpt checkpoint-freq checkpoint-interval save-every save-freq save-interval save-steps",
	},
	{
		"--resume RUN continues a run",
		"resume-from resume-from-checkpoint load-checkpoint ckpt-path restore",
	},
	{"--link-split gives the shares of training, validation and test edges", "val-ratio test-ratio"},
	{
		"--negatives is the number of negative edges for each training edge",
		"num-negs neg-ratio negative-sampling-ratio neg-sampling-ratio num-neg",
	},
	{"--threads is the number of threads of each worker", "num-threads n-threads nthreads num-cores"},
	{
		"--parallel AXIS=N is the number of workers, as in --parallel graph=4",
		"workers num-workers n-workers num-partitions num-parts num-trainers world-size nproc " +
			"nproc-per-node num-procs",
	},
	{
		"weft runs on the CPU and has no choice of devices",
		"device gpu gpus cuda no-cuda use-gpu num-gpus cpu accelerator",
	},
	{
		"training is full-batch: each epoch is one step over the whole graph",
		"batch-size batch num-batches mini-batch test-batch-size eval-batch-size",
	},
	{
		"there is no sampling: each layer aggregates all neighbours of all vertices",
		"fanout fan-out fanouts num-neighbors num-neighbours sampler sample-size neighbors walk- " +
			"length",
	},
})

// meant is the table by flag, of rows of what there is and of the flags.
func meant(table [][2]string) map[string]string {
	by := map[string]string{}
	for _, row := range table {
		for flag := range strings.FieldsSeq(row[1]) {
			by[flag] = row[0]
		}
	}
	return by
}

// unknownFlag proposes the flag that was meant, also for one dash instead of two.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	written, name, value := "--"+err.GetSpecifiedName(), err.GetSpecifiedName(), ""
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		written = "-" + letters
		name, _, _ = strings.Cut(letters, "=")
		value = strings.TrimPrefix(letters, name)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if now := setting.Renamed(name); now != "" && cmd.Flags().Lookup(now) != nil {
		return refusal.Errorf("unknown flag: %s; it is --%s now", written, now)
	}
	if now := foreignFlags[strings.ReplaceAll(name, "_", "-")]; now != "" && cmd.Flags().Lookup("epochs") != nil {
		return refusal.Errorf("unknown flag: %s; %s", written, now)
	}
	if near := suggest.Nearest(name, names); near != "" {
		return refusal.Errorf("unknown flag: %s; did you mean --%s%s?", written, near, value)
	}
	return refusal.Errorf("unknown flag: %s; %s --help lists them", written, cmd.CommandPath())
}

// refuseEmpty refuses an empty name or text, as of an unset variable of a shell: it would be taken for a flag
// not given. A setting may be empty, to override a file.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = refusal.Errorf("--%s: its value is empty; give one, or leave the flag out", f.Name)
		}
	})
	return err
}

// invalidValue says what a flag accepts. The settings of train do so themselves.
func invalidValue(err *pflag.InvalidValueError) error {
	flag, reason := err.GetFlag(), ""
	switch flag.Value.Type() {
	case "int", "int64":
		reason = "must be a whole number"
	case "uint", "uint64":
		reason = "must be a whole number, 0 or more"
	case "float64":
		reason = "must be a number"
	case "bool":
		reason = "must be true or false"
	}
	if _, ours := flag.Value.(*settingValue); ours || reason == "" {
		reason = err.Unwrap().Error()
	}
	return refusal.Errorf("--%s %s: %s", flag.Name, err.GetValue(), reason)
}
