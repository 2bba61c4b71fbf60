package bench

import (
	"context"

	"weft/graph"
	"weft/graph/generate"
	"weft/kernel/machine"
	"weft/train"
	"weft/train/engine"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// Program is a training pass of a program on a graph, by layer, beside what each layer takes at least.
type Program struct {
	Machine     Machine `json:"machine"`
	Program     string  `json:"program"` // its class
	Precision   string  `json:"precision"`
	Graph       string  `json:"graph"`
	PassSeconds float64 `json:"pass_seconds"` // of the fastest pass
	// RestSeconds are the seconds of the pass outside all layers: loss and optimizer.
	RestSeconds  float64 `json:"rest_seconds"`
	BoundSeconds float64 `json:"bound_seconds"` // of all layers
	TimesBound   float64 `json:"times_bound"`   // the layers' time ÷ their bound
	Layers       []Layer `json:"layers"`
}

// Layer is a layer of a program. Its bounds follow from the work of its kernel calls.
type Layer struct {
	Layer           int           `json:"layer"`
	Name            string        `json:"name"`
	ForwardSeconds  float64       `json:"forward_seconds"`
	BackwardSeconds float64       `json:"backward_seconds"`
	Forward         machine.Bound `json:"forward_bound"`
	Backward        machine.Bound `json:"backward_bound"`
	Bound           string        `json:"bound"`       // "compute" or "memory", whichever takes longer
	TimesBound      float64       `json:"times_bound"` // its time ÷ its bound
}

// MeasuredProgram is a program to measure, and the graph.
type MeasuredProgram struct {
	Options train.Options // name a program, which has been read
	Graph   *graph.Graph  // nil: a uniform graph with the features and classes of the program
	Name    string        // the graph's name
}

// MeasureProgram trains a program on a graph for a few epochs, several times, and returns the fastest of the
// last passes. Before that it calls show with the machine.
func MeasureProgram(ctx context.Context, o Options, input MeasuredProgram, show func(Machine),
) (p Program, err error) {
	s := input.Options
	s.Threads, s.LR, s.Device = o.Threads, 1e-9, setting.CPU
	s.Epochs, s.EvalEvery = 3, setting.Every(3)
	if _, err := s.Resolve(); err != nil {
		return p, err
	}
	if input.Graph == nil {
		uniform := o.uniform()
		uniform.Features, uniform.Classes = s.Widths(nil)
		uniform.Seed = 1
		input.Name = Run{graph: uniform}.graphName()
		if input.Graph, err = generate.Graph(uniform); err != nil {
			return p, err
		}
	}
	var working plan.ByLayer
	var epochs []map[int]plan.LayerWork // the work of each epoch, by layer
	job := &train.Job{Graph: input.Graph, Dataset: input.Name, Options: s, Watch: working.Watch}
	job.OnEpoch = func(train.Epoch) { epochs = append(epochs, working.Take()) }
	job.Engine = func(c engine.Config) (engine.Engine, error) {
		c.OnLayer = working.OnLayer
		return engine.New(c)
	}
	if p.Machine, err = thisMachine(o); err != nil {
		return p, err
	}
	show(p.Machine)
	var fastest *worker.Profile
	for range o.times() {
		working.Take()
		epochs = nil
		result, err := job.Run(ctx)
		if err == nil && result.Interrupted() {
			err = context.Cause(ctx)
		}
		if err != nil {
			return p, err
		}
		if fastest == nil || result.Profile.Workers[0].Seconds < fastest.Workers[0].Seconds {
			fastest = result.Profile
		}
	}
	p.Program, p.Precision, p.Graph = s.Program.Class, s.Precision, input.Name
	p.found(fastest, epochs[1])
	return p, nil
}

// times is how often a program is trained.
func (o *Options) times() int {
	if o.Quick {
		return 1
	}
	return 3
}

// found sets what the profile of a pass and the work of its layers show.
func (p *Program) found(pass *worker.Profile, work map[int]plan.LayerWork) {
	took := &pass.Workers[0]
	seconds := 0.0
	for k, name := range pass.Layers {
		l := Layer{Layer: k, Name: name, ForwardSeconds: took.Forward[k], BackwardSeconds: took.Backward[k]}
		layerWork := work[k]
		l.Forward, l.Backward = layerWork.Bounds(&p.Machine.Rates, p.Precision == bf16)
		all := l.Forward.Plus(l.Backward)
		l.Bound, l.TimesBound = all.By(), (l.ForwardSeconds+l.BackwardSeconds)/all.Seconds()
		p.Layers = append(p.Layers, l)
		p.BoundSeconds += all.Seconds()
		seconds += l.ForwardSeconds + l.BackwardSeconds
	}
	p.PassSeconds, p.TimesBound = took.Seconds, seconds/p.BoundSeconds
	p.RestSeconds = took.Seconds - seconds
}
