package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/generate"
	"weft/kernel"
	"weft/train"
	"weft/train/setting"
)

// Model is an epoch of a model on a graph beside the sum of its kernels.
type Model struct {
	Model        string  `json:"model"`
	Graph        string  `json:"graph"`
	EpochSeconds float64 `json:"epoch_seconds"` // the median without the first
	// KernelSeconds: each kernel call of an epoch alone, at its median, added up
	KernelSeconds float64 `json:"kernel_seconds"`
	Fraction      float64 `json:"fraction"` // of the epoch that is in kernels
	Calls         []Call  `json:"-"`        // the kernels, the longest first
}

// Call is a kernel call that an epoch makes so many times with one shape.
type Call struct {
	Name, Shape string
	Times       int
	Seconds     float64 // of all of them, each alone
}

// EpochReport is what Epoch found.
type EpochReport struct {
	Models []Model `json:"models"`
}

// trained is a model whose epochs are measured.
type trained struct {
	name    string
	options func(o *train.Options)
}

var models = []trained{
	{"sage 3×256 batch norm", func(o *train.Options) { o.Model, o.Hidden, o.Norm = "sage", 256, "batch" }},
	{"gat 3×(4×32)", func(o *train.Options) { o.Model, o.Hidden, o.Heads = "gat", 128, 4 }},
	{"gcn 3×256", func(o *train.Options) { o.Model, o.Hidden = "gcn", 256 }},
}

// Epoch trains each model that the options want for a few epochs on each graph, makes the kernel calls of one
// more epoch several times over, and tells each result as it is known. When ctx ends it stops after the work
// under way and returns the context's error.
func Epoch(ctx context.Context, o Options, result func(Model)) (EpochReport, error) {
	b := newBench(o)
	defer b.close()
	vertices, epochs := 1<<20, 4
	if b.Quick {
		vertices, epochs = 1<<11, 3
	}
	var r EpochReport
	for _, kind := range []string{rmat, uniform} {
		k := graphKey{kind, vertices, 16}
		name := fmt.Sprintf("%s V=%d E=%d", kind, vertices, 16*vertices)
		wanted := slices.DeleteFunc(slices.Clone(models),
			func(m trained) bool { return !b.wants(m.name, name) })
		if len(wanted) == 0 {
			continue
		}
		options := k.options()
		options.Features, options.Classes = 128, 16
		g, err := generate.Graph(options)
		if err != nil {
			return r, err
		}
		for _, m := range wanted {
			if ctx.Err() != nil {
				return r, context.Cause(ctx)
			}
			row, err := b.epoch(ctx, g, m, epochs)
			if err != nil {
				return r, err
			}
			row.Graph = name
			r.Models = append(r.Models, row)
			result(row)
		}
	}
	if len(r.Models) == 0 {
		return r, b.nothing(models[0].name + " " + rmat)
	}
	return r, nil
}

// epoch trains so many epochs as they are. The one after them is recorded. The last is there because a run
// evaluates after its last, which is not part of an epoch.
func (b *bench) epoch(ctx context.Context, g *graph.Graph, m trained, epochs int) (Model, error) {
	o := train.Defaults()
	m.options(&o)
	o.Layers, o.Epochs, o.EvalEvery, o.Threads, o.LR = 3, epochs+2, setting.Every(epochs+2), b.Threads, 0.001
	if _, err := o.Resolve(); err != nil {
		return Model{}, err
	}
	r := recorder{calls: map[kernel.Call]*Call{}}
	job := &train.Job{
		Graph: g, Options: o, Watch: r.watch,
		OnEpoch: func(e train.Epoch) { r.on = e.Epoch == epochs },
	}
	result, err := job.Run(ctx)
	if err != nil {
		return Model{}, err
	}
	if result.Interrupted() {
		return Model{}, context.Cause(ctx)
	}
	// The first takes fresh memory, and aggregates the features
	row := Model{Model: m.name, EpochSeconds: median(result.EpochSeconds[1:epochs])}
	for _, c := range r.calls {
		row.KernelSeconds += c.Seconds
		row.Calls = append(row.Calls, *c)
	}
	slices.SortFunc(row.Calls, func(a, b Call) int { return cmp.Compare(b.Seconds, a.Seconds) })
	row.Fraction = row.KernelSeconds / row.EpochSeconds
	return row, nil
}

// recorder makes the kernel calls of an epoch. While it is on it makes each several times, and remembers how
// long it takes alone. Calls that work in place then leave what the epoch does not mean, and nobody reads.
type recorder struct {
	on    bool
	calls map[kernel.Call]*Call
}

func (r *recorder) watch(c kernel.Call, run func()) {
	run()
	if !r.on {
		return
	}
	var samples [3]float64
	for i := range samples {
		samples[i] = work{run}.timed(1)[0]
	}
	entry := r.calls[c]
	if entry == nil {
		entry = &Call{Name: c.Kernel, Shape: c.Shape.String()}
		r.calls[c] = entry
	}
	entry.Times++
	entry.Seconds += median(samples[:])
}
