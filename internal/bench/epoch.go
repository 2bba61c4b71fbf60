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

// Model is an epoch of a model on a graph, beside the sum of its kernels and beside its bound.
type Model struct {
	Model        string  `json:"model"`
	Precision    string  `json:"precision"`
	Graph        string  `json:"graph"`
	EpochSeconds float64 `json:"epoch_seconds"` // the median without the first
	// KernelSeconds: each kernel call of an epoch alone, at its median, added up
	KernelSeconds float64 `json:"kernel_seconds"`
	Fraction      float64 `json:"fraction"` // of the epoch that is in kernels
	Bound         Bound   `json:"bound"`
	BoundSeconds  float64 `json:"bound_seconds"` // the bound's parts, added up
	TimesBound    float64 `json:"times_bound"`   // the epoch ÷ the bound
	Calls         []Call  `json:"-"`             // the kernels, the longest first
}

// Bound is what no epoch of these layers can do without, in seconds at the machine's rates, one part after
// the other: as products compute while their rows pass, an epoch may be a little below. It counts nothing of
// attention's exponentials.
type Bound struct {
	// Products: the floating-point operations of dense products and weight gradients ÷ Machine.Flops or, of
	// bfloat16s, Machine.BFloat16Flops
	Products float64 `json:"products_seconds"`
	// Gathered: kernel.Bytes.Gathered ÷ the rate of rows drawn from all over a matrix
	Gathered float64 `json:"gathered_seconds"`
	// Streamed: the bytes of kernel.Bytes.Least that are read ÷ the rate of reads, and those that are written
	// ÷ the rate of writes
	Streamed float64 `json:"streamed_seconds"`
}

// operationsOf is the floating-point operations of a product's shape, and 0 for that of any other kernel.
func operationsOf(s kernel.Shape) float64 { return 2 * float64(s[0]) * float64(s[1]) * float64(s[2]) }

func (b Bound) seconds() float64 { return b.Products + b.Gathered + b.Streamed }

// bound is the bound of kernel calls in a precision.
func (m *Machine) bound(calls map[kernel.Call]*Call, precision string) Bound {
	flops, operations, all := m.Flops, 0.0, kernel.Bytes{}
	if precision == bf16 {
		flops = m.BFloat16Flops
	}
	for c, made := range calls {
		for range made.Times {
			operations += operationsOf(c.Shape)
			all = all.Plus(c.Bytes)
		}
	}
	return Bound{
		Products: operations / flops, Gathered: float64(all.Gathered) / m.Gather,
		Streamed: float64(all.Least-all.Written)/m.Read + float64(all.Written)/m.Write,
	}
}

// Call is a kernel call that an epoch makes so many times with one shape.
type Call struct {
	Name, Shape string
	Times       int
	Seconds     float64 // of all of them, each alone
}

// EpochReport is what Epoch found.
type EpochReport struct {
	Machine Machine `json:"machine"`
	Models  []Model `json:"models"`
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

// The precisions that each model is trained in.
const (
	f32  = "f32"
	bf16 = "bf16"
)

// run is a model in a precision.
type run struct {
	trained
	precision string
}

func (r run) String() string { return r.name + " " + r.precision }

// runs are those that the options want on a graph of this name.
func (b *bench) runs(graph string) (all []run) {
	for _, m := range models {
		for _, precision := range []string{f32, bf16} {
			if r := (run{m, precision}); b.wants(r.String(), graph) {
				all = append(all, r)
			}
		}
	}
	return all
}

// Epoch trains each model that the options want for a few epochs on each graph, in either precision, makes
// the kernel calls of one more epoch several times over, and tells each result as it is known, after the
// machine. When ctx ends it stops after the work under way and returns the context's error.
func Epoch(ctx context.Context, o Options, machine func(Machine), result func(Model)) (EpochReport, error) {
	b := newBench(o)
	defer b.close()
	graphs, epochs := []graphKey{{uniform, 200_000, 15}, {rmat, 1 << 20, 16}}, 6
	if b.Quick {
		graphs, epochs = []graphKey{{uniform, 2000, 15}, {rmat, 1 << 11, 16}}, 3
	}
	var r EpochReport
	for _, k := range graphs {
		name := fmt.Sprintf("%s V=%d E=%d", k.kind, k.vertices, k.degree*k.vertices)
		wanted := b.runs(name)
		if len(wanted) == 0 {
			continue
		}
		if len(r.Models) == 0 {
			r.Machine = b.machine()
			machine(r.Machine)
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
			row, err := b.epoch(ctx, g, m, &r.Machine, epochs)
			if err != nil {
				return r, err
			}
			row.Graph = name
			r.Models = append(r.Models, row)
			result(row)
		}
	}
	if len(r.Models) == 0 {
		return r, b.nothing(run{models[0], bf16}.String() + " " + rmat)
	}
	return r, nil
}

// epoch trains so many epochs as they are. The one after them is recorded. The last is there because a run
// evaluates after its last, which is not part of an epoch.
func (b *bench) epoch(ctx context.Context, g *graph.Graph, m run, machine *Machine, epochs int,
) (Model, error) {
	o := train.Defaults()
	m.options(&o)
	o.Precision, o.Dropout = m.precision, 0
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
	row := Model{
		Model: m.name, Precision: m.precision, EpochSeconds: median(result.EpochSeconds[1:epochs]),
		Bound: machine.bound(r.calls, m.precision),
	}
	for _, c := range r.calls {
		row.KernelSeconds += c.Seconds
		row.Calls = append(row.Calls, *c)
	}
	slices.SortFunc(row.Calls, func(a, b Call) int { return cmp.Compare(b.Seconds, a.Seconds) })
	row.Fraction = row.KernelSeconds / row.EpochSeconds
	row.BoundSeconds = row.Bound.seconds()
	row.TimesBound = row.EpochSeconds / row.BoundSeconds
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
