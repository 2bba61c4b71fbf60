// Package bench measures how close kernels and epochs come to what this machine can do: it trains models for
// a few epochs and times each kernel call in them.
//
// The bound of a call is a time that follows from the rates of package machine:
//
//	bytes that it reads ÷ rate of reads + bytes that it writes ÷ rate of writes
//	  + rows that it gathers · seconds of a row + floating-point operations of products ÷ their rate
//
// A gathered row takes as long as its cache lines do, read from all over a memory that no cache holds. The
// bound is the sum of all parts. A processor may do some of them at once and find rows in a cache, so a call
// may take a little less than its bound. The bound leaves out what attention and norms compute.
//
// On a card all bytes have one rate, the rate of copies in its memory. The card's clock times kernel calls,
// as the mean of 20 repetitions. Epochs are timed without repetitions.
//
// The command bench prints what it finds.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"weft/graph/generate"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/kernel/machine"
	"weft/train"
	"weft/train/setting"
)

// Options choose what is measured.
type Options struct {
	Part    string // one of Parts, "": all
	Threads int
	// Only selects the Runs whose text it matches; nil: all.
	Only   *regexp.Regexp
	Quick  bool   // measures small graphs and few epochs: takes seconds, and its figures say little
	CPU    string // the processor's name, for the report
	Device setting.Device
}

// Machine is what the figures were measured on.
type Machine struct {
	CPU              string `json:"cpu"`
	Card             string `json:"card,omitempty"` // "": the CPU computes
	Cores            int    `json:"cores"`
	SIMD             string `json:"simd"`              // the SIMD level of the kernels
	BFloat16Products string `json:"bfloat16_products"` // how the CPU multiplies bfloat16
	machine.Rates
}

// Report is what was measured.
type Report struct {
	Machine Machine  `json:"machine"`
	Kernels []Kernel `json:"kernels,omitempty"` // kernels of all models; empty if Options.Part is "epoch"
	Models  []Model  `json:"models,omitempty"`  // empty if Options.Part is "kernels"
}

// Model is the fastest epoch of a model on a graph, beside its kernels and beside its bound.
type Model struct {
	Model         string  `json:"model"`
	Precision     string  `json:"precision"`
	Graph         string  `json:"graph"`
	EpochSeconds  float64 `json:"epoch_seconds"`
	KernelSeconds float64 `json:"kernel_seconds"` // seconds of the epoch in kernels
	Fraction      float64 `json:"fraction"`       // KernelSeconds ÷ the epoch's seconds
	// Bound is the bound of the model's kernels. What they read and write in order counts by
	// kernel.Bytes.Least.
	Bound        machine.Bound `json:"bound"`
	BoundSeconds float64       `json:"bound_seconds"` // the bound's parts, added up
	TimesBound   float64       `json:"times_bound"`   // the epoch ÷ the bound
	// Kernels are the kernels that take a noticeable part of the epoch, the longest first. Calls that only
	// merge partial sums of others pass over no operands, so they have no bound to be compared with.
	Kernels []Kernel `json:"-"`
}

// Kernel is a kernel call that an epoch makes so many times.
type Kernel struct {
	Model     string  `json:"model"`
	Precision string  `json:"precision"`
	Graph     string  `json:"graph"`
	Name      string  `json:"name"`
	Shape     string  `json:"shape"`
	Threads   int     `json:"threads"`
	Seconds   float64 `json:"seconds"` // of the fastest call in all epochs, without other work on the machine
	GFLOPS    float64 `json:"gflops"`  // rate of a product; else 0
	// GBytesPerSec is the rate of what it reads and writes. A gathered row counts each time it is read.
	GBytesPerSec float64 `json:"gbytes_per_second"`
	Bound        string  `json:"bound"`    // "compute" or "memory", whichever takes longer
	Fraction     float64 `json:"fraction"` // bound ÷ time

	Times int     `json:"-"`
	Share float64 `json:"-"` // the share of the epoch that all these calls take
}

// Run is a model that is trained on a graph.
type Run struct {
	Model, Precision string
	options          func(o *train.Options)
	graph            generate.Options
}

// String is the model, its precision and the graph.
func (r Run) String() string { return r.Model + " " + r.Precision + " " + r.graphName() }

func (r Run) graphName() string {
	o := &r.graph
	if o.Kind == generate.RMAT {
		return fmt.Sprintf("%s V=%d E=%d", o.Kind, 1<<o.Scale, o.EdgeFactor<<o.Scale)
	}
	return fmt.Sprintf("%s V=%d E=%d", o.Kind, o.Vertices, int(o.Degree)*o.Vertices)
}

const (
	f32  = "f32"
	bf16 = "bf16"
)

// Parts are what bench measures. "kernels" is kernels in float32 on a graph whose rows no cache holds, by
// models that together have all kernels of some weight. "epoch" is epochs of the first three models on two
// graphs in both precisions. On a card bench measures all kernels in both precisions and on both graphs.
var Parts = []string{"kernels", "epoch"}

// Runs returns the runs that the options select.
func Runs(o Options) (all []Run) {
	for _, graph := range []generate.Options{o.uniform(), o.rmat()} {
		graph.Features, graph.Classes, graph.Seed = 128, 16, 1
		for i, r := range []Run{
			{Model: "sage 3×256 batch norm", options: func(o *train.Options) {
				o.Model, o.Hidden, o.Norm = "sage", 256, "batch"
			}},
			{Model: "gat 3×(4×32)", options: func(o *train.Options) {
				o.Model, o.Hidden, o.Heads = "gat", 128, 4
			}},
			{Model: "gcn 3×256", options: func(o *train.Options) { o.Model, o.Hidden = "gcn", 256 }},
			{Model: "gatv2 3×(4×32)", options: func(o *train.Options) {
				o.Model, o.Hidden, o.Heads = "gatv2", 128, 4
			}},
			{Model: "sage 3×128 maximum, layer norm", options: func(o *train.Options) {
				o.Model, o.Hidden, o.Aggregation, o.Norm = "sage", 128, "max", "layer"
			}},
		} {
			for _, precision := range []string{f32, bf16} {
				r.Precision, r.graph = precision, graph
				kernels := precision == f32 && graph.Kind == generate.Uniform || o.Device.IsCard()
				epoch := i < 3
				if (kernels && o.Part != "epoch" || epoch && o.Part != "kernels") &&
					(o.Only == nil || o.Only.MatchString(r.String())) {
					all = append(all, r)
				}
			}
		}
	}
	return all
}

func (o *Options) uniform() generate.Options {
	g := generate.Options{Kind: generate.Uniform, Vertices: 200_000, Degree: 15, Directed: true}
	if o.Quick {
		g.Vertices = 2000
	}
	if o.Quick && o.Device.IsCard() {
		g.Vertices = 60
	}
	return g
}

func (o *Options) rmat() generate.Options {
	g := generate.Options{Kind: generate.RMAT, Scale: 20, EdgeFactor: 16}
	if o.Quick {
		g.Scale = 11
	}
	if o.Quick && o.Device.IsCard() {
		g.Scale = 6
	}
	return g
}

// Measure trains each model for a few epochs. It calls show with the machine, and then result with each model
// as soon as it is measured. When ctx ends it returns the cause, with what is measured so far.
func Measure(ctx context.Context, o Options, show func(Machine), result func(Model)) (r Report, err error) {
	runs := Runs(o)
	if len(runs) == 0 {
		return r, refusal.Errorf("--only %s: nothing matches; it is matched with a model, its precision and "+
			"a graph as in %q", o.Only, Runs(Options{})[0])
	}
	if r.Machine, err = thisMachine(o); err != nil {
		return r, err
	}
	show(r.Machine)
	job := &train.Job{}
	for i, run := range runs {
		if i == 0 || run.graphName() != runs[i-1].graphName() {
			if job.Graph, err = generate.Graph(run.graph); err != nil {
				return r, err
			}
		}
		epochs, err := run.train(ctx, job, o, (*epoch).watch)
		if err == nil && o.Device.IsCard() && o.Part != "kernels" {
			var whole []*epoch
			whole, err = run.train(ctx, job, o, nil)
			for k, e := range whole {
				epochs[k].seconds = e.seconds
			}
		}
		if err != nil {
			return r, err
		}
		m := r.Machine.model(run, epochs, o.noticeable())
		if o.Part != "kernels" {
			r.Models = append(r.Models, m)
		}
		if o.Part != "epoch" {
			r.Kernels = append(r.Kernels, m.Kernels...)
		}
		result(m)
	}
	return r, nil
}

// thisMachine is this machine, with its rates.
func thisMachine(o Options) (m Machine, err error) {
	m = Machine{
		CPU: o.CPU, Cores: runtime.NumCPU(), SIMD: kernel.SIMD(), BFloat16Products: kernel.BFloat16Products(),
	}
	return m, m.measure(o)
}

// measure measures the rates.
func (m *Machine) measure(o Options) (err error) {
	bytes := machine.Beyond
	if o.Quick {
		bytes = 1 << 20
	}
	if !o.Device.IsCard() {
		m.Rates, err = machine.Measure(o.Threads, bytes, math.MaxInt64)
		return err
	}
	if o.Quick {
		bytes = 16 << 10
	}
	cards, err := train.OpenCards(o.Device, 0, 1)
	if err != nil {
		return train.AboutDevice(o.Device, err)
	}
	card := cards[0]
	defer func() { err = errors.Join(err, card.Close()) }()
	m.Card = card.Name()
	m.Rates, err = machine.MeasureCard(card, bytes)
	return err
}

// epoch is what an epoch took.
type epoch struct {
	seconds, inKernels float64
	calls              map[kernel.Call]*calls
}

// calls are the calls of an epoch with the same arguments.
type calls struct {
	times   int
	seconds float64 // of all calls together
	least   float64 // of the fastest call, without other work on the machine
}

// watch times a kernel call. Beside other work on the machine, it counts the time for which the call's own
// thread has a core, or the mean time of all threads, if these do more of the work.
func (e *epoch) watch(c kernel.Call, run func(), o Options) {
	start := time.Now()
	before := machine.ProcessorTime()
	own := machine.Timed(run)
	seconds := time.Since(start).Seconds()
	least := max(own, (machine.ProcessorTime()-before)/time.Duration(o.Threads)).Seconds()
	e.add(c, seconds, least)
}

// add counts a call that took so many seconds, and least of them without other work.
func (e *epoch) add(c kernel.Call, seconds, least float64) {
	total := e.calls[c]
	if total == nil {
		total = &calls{least: least}
		e.calls[c] = total
	}
	total.times, total.seconds, total.least = total.times+1, total.seconds+seconds, min(total.least, least)
	e.inKernels += seconds
}

// train trains a model, and calls watch around each kernel call, unless watch is nil. It returns the epochs
// without the first, which takes fresh memory and aggregates the features, and without the last, which
// evaluates.
func (r Run) train(ctx context.Context, job *train.Job, o Options,
	watch func(e *epoch, c kernel.Call, run func(), o Options),
) ([]*epoch, error) {
	s := train.Defaults()
	epochs := 7
	if o.Quick {
		epochs = 3
	}
	r.options(&s)
	s.Precision, s.Dropout, s.Threads, s.LR, s.Device = r.Precision, 0, o.Threads, 0.001, o.Device
	s.Layers, s.Epochs, s.EvalEvery = 3, epochs, setting.Every(epochs)
	if _, err := s.Resolve(); err != nil {
		return nil, err
	}
	now := &epoch{calls: map[kernel.Call]*calls{}}
	var all []*epoch
	job.Options, job.Watch, job.Timing = s, nil, nil
	if watch != nil && o.Device.IsCard() {
		job.Timing = func(c kernel.Call, seconds float64) { now.add(c, seconds, seconds) }
	} else if watch != nil {
		job.Watch = func(c kernel.Call, run func()) { watch(now, c, run, o) }
	}
	job.OnEpoch = func(e train.Epoch) {
		now.seconds = e.Seconds
		all = append(all, now)
		now = &epoch{calls: map[kernel.Call]*calls{}}
	}
	result, err := job.Run(ctx)
	if err == nil && result.Interrupted() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return all[1 : epochs-1], nil
}

// noticeable is the smallest part of an epoch for which a kernel is listed. A Quick epoch takes few
// milliseconds, in which one kernel may wait for a core so that the others seem to take nothing: all are
// listed.
func (o *Options) noticeable() float64 {
	if o.Quick {
		return 0
	}
	return .005
}

// model is what the epochs of a run show, with the kernels that take at least the part noticeable of an
// epoch.
func (m *Machine) model(r Run, epochs []*epoch, noticeable float64) Model {
	e := slices.MinFunc(epochs, func(a, b *epoch) int { return cmp.Compare(a.seconds, b.seconds) })
	model := Model{
		Model: r.Model, Precision: r.Precision, Graph: r.graphName(), EpochSeconds: e.seconds,
		KernelSeconds: e.inKernels, Fraction: e.inKernels / e.seconds,
	}
	for c, made := range e.calls {
		b := m.Bound(c.Work(), c.Bytes.Least, r.Precision == bf16)
		model.Bound.Products += float64(made.times) * b.Products
		model.Bound.Gathered += float64(made.times) * b.Gathered
		model.Bound.Streamed += float64(made.times) * b.Streamed
		k := m.kernel(c, r.Precision, least(c, epochs))
		if share := made.seconds / e.seconds; k.Fraction > 0 && share >= noticeable {
			k.Model, k.Precision, k.Graph = r.Model, r.Precision, r.graphName()
			k.Times, k.Share = made.times, share
			model.Kernels = append(model.Kernels, k)
		}
	}
	slices.SortFunc(model.Kernels, func(a, b Kernel) int { return cmp.Compare(b.Share, a.Share) })
	model.BoundSeconds = model.Bound.Seconds()
	model.TimesBound = model.EpochSeconds / model.BoundSeconds
	return model
}

// least is the fewest seconds that a call took.
func least(c kernel.Call, epochs []*epoch) (seconds float64) {
	seconds = math.Inf(1)
	for _, e := range epochs {
		if made := e.calls[c]; made != nil {
			seconds = min(seconds, made.least)
		}
	}
	return seconds
}

// names writes the names of kernels in words.
var names = strings.NewReplacer("attend", "attention", "_", " ")

// kernel compares a call that took so many seconds with its bound.
func (m *Machine) kernel(c kernel.Call, precision string, seconds float64) Kernel {
	b := m.Bound(c.Work(), c.Bytes.Streamed, precision == bf16)
	k := Kernel{
		Name: names.Replace(c.Kernel), Shape: c.Shape.String(), Threads: m.Threads, Seconds: seconds,
		GFLOPS: c.Operations() / seconds / 1e9, Bound: b.By(), Fraction: b.Seconds() / seconds,
		GBytesPerSec: float64(c.Bytes.Streamed+c.Bytes.Gathered) / seconds / 1e9,
	}
	return k
}
