package planning

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/graph"
	"weft/internal/refusal"
	"weft/tensor"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// Loop is what a caller's loop takes. Lists have an entry for each worker. Messages are those of a pass.
type Loop struct {
	PeakTensorBytes []int64              `json:"peak_tensor_bytes"`
	GraphBytes      []int64              `json:"graph_bytes"`
	Kinds           []string             `json:"kinds"`
	Peaks           [][]int64            `json:"peaks"` // workers × kinds
	Communication   worker.Communication `json:"communication"`
	SentBytes       []int64              `json:"sent_bytes"`
	EdgeColumns     []int64              `json:"edge_columns,omitempty"` // nil: smaller graphs were planned
	DiskBytes       int64                `json:"disk_bytes"`             // bytes that rest at the peak
	Rows            [][]int              `json:"rows"`                   // workers × types: of inputs
	Edges           [][]int              `json:"edges"`                  // workers × relations
	Recompute       bool                 `json:"recompute"`
	KeepEdgeStates  string               `json:"keep_edge_states"`
}

// LoopOf returns what a plan says about a loop.
func LoopOf(p *plan.Plan) Loop {
	loop := Loop{
		PeakTensorBytes: p.PeakTensorBytes, GraphBytes: p.GraphBytes, Kinds: tensor.KindNames(),
		Communication: worker.SumOf(p.Sent), EdgeColumns: p.EdgeColumns,
		DiskBytes: p.DiskBytes(), Recompute: p.Recompute, KeepEdgeStates: p.EdgeStates.String(),
	}
	for k := range p.Workers {
		w := &p.Workers[k]
		loop.Peaks = append(loop.Peaks, append(slices.Clone(w.Kinds), w.Graph))
		loop.SentBytes = append(loop.SentBytes, p.Sent[k].Bytes())
		loop.Rows, loop.Edges = append(loop.Rows, w.Rows), append(loop.Edges, w.Edges)
	}
	return loop
}

// LoopByCounts plans a loop on a graph that is known by counts, in equal partitions. inputs are the features
// of vertices that each pass is given; nil: none.
func (c *CountsGiven) LoopByCounts(ctx context.Context, r *setting.Resolved, passes int,
	inputs *worker.InputValues,
) (l Loop, err error) {
	counts, err := c.Counts("", r.Mesh.Partitions, true)
	if err != nil {
		return l, err
	}
	if r.OnCard() {
		return l, refusal.Errorf("--device %s: counts tell what a loop takes on the CPU alone; leave it out, or "+
			"name a graph", r.Device)
	}
	loop := plan.Loop{Passes: passes}
	if inputs != nil {
		loop.Features = []worker.InputValues{*inputs}
	}
	p, err := counts.Loop(ctx, r, loop)
	if err != nil {
		return l, err
	}
	return LoopOf(&p), nil
}

// Given reports whether any of the flags is given.
func (c *CountsGiven) Given() (changed bool) {
	c.flags.VisitAll(func(f *pflag.Flag) { changed = changed || f.Changed })
	return changed
}

// Type is the vertex type of such a graph.
func (c *CountsGiven) Type() train.VertexType {
	return train.VertexType{Vertices: c.vertices, Features: c.features}
}

// loopGiven are the flags of a caller's loop.
type loopGiven struct {
	passes            int
	inputs, gradients []string
	flags             *pflag.FlagSet // the flags
}

// ofPasses are what a pass may be given in place of the graph's own data.
var ofPasses = []string{"x", "edges", "edge_weight", "edge_attr"}

// add adds the flags to a command.
func (l *loopGiven) add(flags *pflag.FlagSet) {
	l.flags = pflag.NewFlagSet("loop", pflag.ContinueOnError)
	l.flags.IntVar(&l.passes, "passes", 0, "`number` of passes of the model that live at a time, as the steps of a "+
		"rollout before one backward pass")
	cli.NamesVar(l.flags, &l.inputs, "inputs", "`names` of what each pass is given in place of the graph's: "+
		strings.Join(ofPasses, ", "))
	cli.NamesVar(l.flags, &l.gradients, "gradients", "`names` of those whose gradients are asked for")
	l.flags.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{cli.FlagGroup: {"Loop (of your own, around weft.compile)"}}
	})
	flags.AddFlagSet(l.flags)
}

// changed reports whether any of the flags is given.
func (l *loopGiven) changed() (changed bool) {
	l.flags.VisitAll(func(f *pflag.Flag) { changed = changed || f.Changed })
	return changed
}

// check refuses unknown names, and a missing number of passes.
func (l *loopGiven) check() error {
	for _, list := range [][]string{l.inputs, l.gradients} {
		for _, name := range list {
			if !slices.Contains(ofPasses, name) {
				return refusal.Errorf("%q is nothing that a pass is given: there are %s", name,
					strings.Join(ofPasses, ", "))
			}
		}
	}
	if l.passes < 1 {
		return refusal.Errorf("--passes %d: of a loop of your own say how many live at a time, 1 or more", l.passes)
	}
	if slices.Contains(l.gradients, "edges") {
		return refusal.Errorf("--gradients edges: which edges a pass has is not differentiable; leave it out")
	}
	return nil
}

// input returns what a pass is given under that name; nil: nothing.
func (l *loopGiven) input(name string) *worker.InputValues {
	differentiable := slices.Contains(l.gradients, name)
	if !differentiable && !slices.Contains(l.inputs, name) {
		return nil
	}
	return &worker.InputValues{Values: []float32{}, Differentiable: differentiable}
}

// on is the loop on a graph: of a type or relation, it gives what the graph has.
func (l *loopGiven) on(g *graph.Graph) plan.Loop {
	loop := plan.Loop{Passes: l.passes}
	if input := l.input("x"); input != nil {
		for _, t := range g.Types {
			features := worker.InputValues{}
			if t.Features.Columns > 0 {
				features = *input
			}
			loop.Features = append(loop.Features, features)
		}
	}
	for k := range g.Relations {
		r := &g.Relations[k]
		e := worker.EdgeValues{Number: k, Relation: r}
		if l.input("edges") != nil {
			e.Kept = []float32{}
		}
		if input := l.input("edge_weight"); input != nil && r.Weights != nil {
			e.Weights = *input
		}
		if input := l.input("edge_attr"); input != nil && r.Features.Columns > 0 {
			e.Features = *input
		}
		if e.Kept != nil || e.Weights.Values != nil || e.Features.Values != nil {
			loop.Edges = append(loop.Edges, e)
		}
	}
	return loop
}

// ofLoop plans a caller's loop, and prints the plan.
func (p *planCommand) ofLoop(cmd *cobra.Command, dataset string) error {
	o, err := p.settings.Merge()
	if err == nil {
		err = p.checkLoop(cmd, &o)
	}
	var r *setting.Resolved
	if err == nil {
		r, err = o.Resolve(p.settings.GivenNames()...)
	}
	if err != nil {
		return err
	}
	var planned Loop
	switch {
	case p.counts.Given() && dataset == "":
		if len(p.tables.Source("").Flags) > 0 {
			return refusal.Errorf("--%s: is for a graph that is there; leave it out, or name one",
				p.tables.Source("").Flags[0].Name)
		}
		planned, err = p.counts.LoopByCounts(cmd.Context(), r, p.loop.passes, p.loop.input("x"))
	default:
		if _, err := p.counts.Counts(dataset, r.Mesh.Partitions, true); err != nil {
			return err
		}
		planned, err = p.loopOn(cmd, p.tables.Source(dataset), r)
	}
	if err != nil {
		return err
	}
	if p.json {
		return ui.PrintJSON(cmd.OutOrStdout(), planned)
	}
	planned.print(cmd.OutOrStdout(), p.loop.passes)
	return nil
}

// checkLoop refuses flags that say nothing about a loop, and sets the options of one.
func (p *planCommand) checkLoop(cmd *cobra.Command, o *setting.Options) error {
	for _, name := range []string{
		"workers", "at", "exactly", "link", "per-machine", "device-rates", "machine", "explain",
	} {
		if cmd.Flags().Changed(name) {
			return refusal.Errorf("--%s: of a loop the memory and bytes of one mesh are planned, which is that of "+
				"--parallel; leave it out", name)
		}
	}
	switch {
	case mpi.Launched() && mpi.Ranks() > 1:
		return refusal.Errorf("--passes: one process plans for all workers of --parallel; start it without a launcher")
	case p.card != nil:
		return refusal.Errorf("--device %s: a loop is planned on cards that are here; take --device %s, or leave it "+
			"out", p.card.Name, setting.AllCards)
	case o.Program.Path == "":
		return refusal.Errorf("--passes: a loop is around a model of your own: give its --program, or plan the module " +
			"in Python, as weft.plan(…, model=module, passes=2)")
	}
	if err := p.loop.check(); err != nil {
		return err
	}
	if p.counts.Given() {
		for _, name := range ofPasses[1:] {
			if p.loop.input(name) != nil {
				return refusal.Errorf("--inputs %s: counts tell what a loop takes whose passes have the graph's edges; "+
					"leave it out, or name a graph", name)
			}
		}
	}
	return o.ForLoop()
}

// loopOn plans the loop on a graph that is there.
func (p *planCommand) loopOn(cmd *cobra.Command, source data.Source, r *setting.Resolved,
) (l Loop, err error) {
	s, err := session.Open(cmd.Context(), cli.Alone(), source, r, cmd.ErrOrStderr(), session.Opening{
		Dry: true,
	})
	if err != nil {
		return l, data.About(source, err)
	}
	defer s.Close()
	g, err := s.Graph()
	if err != nil {
		return l, err
	}
	loop := p.loop.on(g)
	planned, err := s.Job.PlanPasses(cmd.Context(), plan.Asks{Loop: &loop})
	if err != nil {
		return l, data.About(source, err)
	}
	return LoopOf(&planned), nil
}

// print prints what a loop takes, for people.
func (l *Loop) print(out io.Writer, passes int) {
	least, most, sent := int64(math.MaxInt64), int64(0), int64(0)
	for k, tensors := range l.PeakTensorBytes {
		all := tensors + l.GraphBytes[k]
		least, most = min(least, all), max(most, all)
		sent += l.SentBytes[k]
	}
	fmt.Fprintf(out, "%s, with %s live at a time\n", ui.Counted(len(l.PeakTensorBytes), "worker", "workers"),
		ui.Counted(passes, "pass", "passes"))
	fmt.Fprintf(out, "A worker needs %s to %s for tensors and the graph, beside what Python has.\n",
		ui.Megabytes(least), ui.Megabytes(most))
	fmt.Fprintf(out, "All send %s in a pass, forward and backward, and %s in all of a step.\n", ui.Megabytes(sent),
		ui.Megabytes(int64(passes)*sent))
}
