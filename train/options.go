package train

import (
	"slices"
	"strconv"
	"strings"

	"weft/gnn"
	"weft/internal/refusal"
)

// attentionModels are the models with attention heads.
var attentionModels = []string{"gat", "gatv2"}

// graphModels are the models that read the edges.
var graphModels = slices.DeleteFunc(slices.Clone(gnn.Names), func(name string) bool { return name == "mlp" })

// Options is everything that a run can be told. A field's yaml tag is its name as a flag of the command and as a key of a
// configuration file; Settings describes each. The zero value is not useful: start from Defaults.
type Options struct {
	Model             string  `yaml:"model"`
	Layers            int     `yaml:"layers"`
	Hidden            int     `yaml:"hidden"` // width of a hidden layer, over all heads together
	Heads             int     `yaml:"heads"`
	OutputHeads       int     `yaml:"output-heads"` // heads of the last layer, averaged
	Dropout           float64 `yaml:"dropout"`
	InputDropout      float64 `yaml:"input-dropout"`
	TransformDropout  float64 `yaml:"transform-dropout"`
	AttentionDropout  float64 `yaml:"attention-dropout"`
	NormalizeFeatures string  `yaml:"normalize-features"`
	Norm              string  `yaml:"norm"`
	Residual          bool    `yaml:"residual"`
	Activation        string  `yaml:"activation"`
	Direction         string  `yaml:"direction"`

	LR                  float64 `yaml:"lr"`
	WeightDecay         float64 `yaml:"weight-decay"`
	DecayFirstLayerOnly bool    `yaml:"decay-first-layer-only"`
	Optimizer           string  `yaml:"optimizer"`
	Schedule            string  `yaml:"schedule"`
	Clip                float64 `yaml:"clip"` // largest 2-norm of all gradients together, 0: no limit
	Epochs              int     `yaml:"epochs"`
	Patience            int     `yaml:"patience"`   // epochs without progress on the validation vertices after which the run stops, 0: never
	EvalEvery           int     `yaml:"eval-every"` // epochs from one evaluation to the next
	Metric              string  `yaml:"metric"`     // "auto" takes the measure that the graph names
	Seed                uint64  `yaml:"seed"`
	Split               int     `yaml:"split"` // which stored split, from 0
	Init                string  `yaml:"init"`  // safetensors file with the weights to start from, empty: none

	Threads     int    `yaml:"threads"`      // per worker, 0: all cores shared among the local workers
	MemoryLimit Bytes  `yaml:"memory-limit"` // per worker, tensors and graph, 0: none
	Precision   string `yaml:"precision"`
	Parallel    string `yaml:"parallel"` // the mesh, "AXIS=N[,AXIS=N…]", empty: one worker
}

// Defaults are the options of a run that was told nothing.
func Defaults() Options {
	return Options{
		Model: "sage", Layers: 2, Hidden: 64, Heads: 1, OutputHeads: 1, Dropout: 0.5,
		NormalizeFeatures: "none", Norm: "none", Activation: "relu", Direction: "in",
		LR: 0.01, Optimizer: "adam", Schedule: "constant", Epochs: 200, EvalEvery: 1, Metric: "auto",
		Precision: "f32",
	}
}

// Validate refuses options that make no sense, naming the setting and what would be accepted.
func (o *Options) Validate() error {
	for _, s := range settings {
		if reason := s.reject(o); reason != "" {
			return refusal.Errorf("--%s %s: %s", s.Name, s.Text(o), reason)
		}
	}
	if slices.Contains(attentionModels, o.Model) && o.Hidden%o.Heads != 0 {
		return refusal.Errorf("--heads %d does not divide --hidden %d: each head of %s gets an equal share of the hidden width",
			o.Heads, o.Hidden, o.Model)
	}
	_, err := o.Workers()
	return err
}

// Unused lists the settings ("heads") that differ from their default although the model does not use them.
func (o *Options) Unused() []string {
	defaults := Defaults()
	var names []string
	for _, s := range settings {
		if !s.Applies(o.Model) && s.Text(o) != s.Text(&defaults) {
			names = append(names, s.Name)
		}
	}
	return names
}

// meshAxes are the ways of dividing the work that the mesh's vocabulary knows.
var meshAxes = []string{"graph", "tensor", "pipeline"}

// Workers is the size of the mesh that Parallel asks for, or a refusal. Every axis may have one worker, which divides nothing;
// this build divides along none.
func (o *Options) Workers() (int, error) {
	if o.Parallel == "" {
		return 1, nil
	}
	var seen []string
	for part := range strings.SplitSeq(o.Parallel, ",") {
		axis, count, found := strings.Cut(part, "=")
		n, err := strconv.Atoi(count)
		switch {
		case !found:
			return 0, refusal.Errorf("--parallel %s: a mesh is written AXIS=N[,AXIS=N…], as in graph=1", o.Parallel)
		case !slices.Contains(meshAxes, axis):
			return 0, refusal.Errorf("--parallel %s: the mesh has no axis %q; the axes are %s",
				o.Parallel, axis, strings.Join(meshAxes, ", "))
		case slices.Contains(seen, axis):
			return 0, refusal.Errorf("--parallel %s: the axis %s stands twice in the mesh", o.Parallel, axis)
		case err != nil || n < 1:
			return 0, refusal.Errorf("--parallel %s: a mesh axis has a whole number of workers, at least 1, not %q", o.Parallel, count)
		case n > 1:
			return 0, refusal.Errorf("--parallel %s: this build trains with one worker and cannot divide the work along the %s axis of a mesh;"+
				" leave --parallel out", o.Parallel, axis)
		}
		seen = append(seen, axis)
	}
	return 1, nil
}
