package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// Plan is what a run would take.
type Plan struct {
	PeakTensorBytes, GraphBytes []int64         // per worker
	Sent                        []Communication // per worker, in a training pass but the first, to move rows: Halo, Layout and Stage
	EdgeColumns                 []int64         // per worker, that it aggregates in such a pass: edges × columns
	Stages                      []Stage         // where the mesh has several
	Lines                       []string
	Warnings                    []string // of what the run leaves unused, or may suffer from
}

// workerPlan is what one worker found out.
type workerPlan struct {
	Tensors, Graph int64         // bytes at the peak
	Kinds          []int64       // of Tensors at the peak of each kind
	Sent           Communication // in a training pass but the first
	EdgeColumns    bySite        // edges × columns that are aggregated in such a pass
	Parameters     int           // values, of its stage
	Work           []string      // of the whole model
	LayoutBytes    bySite        // that are sent in switches between layouts in such a pass
	Sites          []explained   // in the order of their first forward pass
	Warnings       []string
	Stage          stagePlan
}

// explained is what the engine says that a site does.
type explained struct{ Site, What string }

// OneClass is the warning of a graph whose labels teach nothing.
const OneClass = "all labels of the graph are one class, so there is nothing to learn"

// Plan finds out what the run would take, before any work: each worker goes through an epoch and an
// evaluation with kernels that do nothing, so that the same matrices are allocated, and none of their pages
// is ever touched. Where scratch that makes sums faster passes the memory limit, neither the plan nor a later
// run takes it. Run holds the limit against the last plan: a job that is changed is planned again.
func (j *Job) Plan(ctx context.Context) (p Plan, err error) {
	grid, err := j.mesh()
	if err != nil {
		return p, err
	}
	j.uncut = false
	workers, err := j.planOwn(ctx, grid)
	if limit := int64(j.Options.MemoryLimit); err == nil && limit > 0 && most(workers) > limit {
		j.uncut = true
		workers, err = j.planOwn(ctx, grid)
	}
	if c := j.peers(); c.Size() > 1 {
		workers, err = allPlans(c, workers, err)
	}
	if err != nil {
		return p, err
	}
	p = j.assemble(grid, workers)
	j.planned = &p
	return p, nil
}

// checkLimit refuses a run that would pass the memory limit of any process, as its plan says.
func (j *Job) checkLimit(ctx context.Context) error {
	if _, err := j.mesh(); err != nil { // before it waits for ranks that are not there
		return err
	}
	ranks := launch.Ranks{Comm: j.peers()}
	limit, err := ranks.Largest(int64(j.Options.MemoryLimit))
	if limit == 0 || err != nil {
		return err
	}
	if j.planned == nil {
		_, err := j.Plan(ctx)
		if err := ranks.Together(err); err != nil {
			return err
		}
	}
	return ranks.Together(j.planned.CheckLimit(j.Options.MemoryLimit))
}

// CheckLimit refuses a plan of which a worker needs more than the limit; 0: none.
func (p *Plan) CheckLimit(limit Bytes) error {
	for worker, tensors := range p.PeakTensorBytes {
		graph := p.GraphBytes[worker]
		if limit > 0 && tensors+graph > int64(limit) {
			return refusal.Errorf("%s %s: worker %d would need %s (tensors %s, graph %s); raise the limit or take a smaller model",
				refusal.Setting("memory-limit"), limit, worker, Bytes(tensors+graph).Rounded(), Bytes(tensors).Rounded(), Bytes(graph).Rounded())
		}
	}
	return nil
}

// planOwn plans for the workers of this process, one after the other.
func (j *Job) planOwn(ctx context.Context, grid mesh.Mesh) (workers []workerPlan, err error) {
	end, open, err := j.shares(ctx)
	rank := 0
	if c := j.peers(); c.Size() > 1 {
		rank, end = c.Rank(), c.Rank()+1
	}
	for ; rank < end && err == nil; rank++ {
		err = open(rank, func(share *partition.Share) error {
			one, err := j.plan(grid, rank, share)
			workers = append(workers, one)
			return err
		})
	}
	return workers, err
}

// most is what the worker that needs most takes, for tensors and graph.
func most(workers []workerPlan) (bytes int64) {
	for _, w := range workers {
		bytes = max(bytes, w.Tensors+w.Graph)
	}
	return bytes
}

// allPlans are those of all workers, each a process with a plan of its own. Where that failed, with err, the
// others still wait for it.
func allPlans(c *comm.Comm, own []workerPlan, err error) ([]workerPlan, error) {
	if err != nil {
		own = []workerPlan{{}}
	}
	workers, broken := gather(c, own[0])
	return workers, errors.Join(err, broken)
}

// assemble is the plan of all workers.
func (j *Job) assemble(grid mesh.Mesh, all []workerPlan) (p Plan) {
	for _, w := range all {
		p.PeakTensorBytes, p.GraphBytes = append(p.PeakTensorBytes, w.Tensors), append(p.GraphBytes, w.Graph)
		p.Sent, p.EdgeColumns = append(p.Sent, w.Sent), append(p.EdgeColumns, w.EdgeColumns.sum())
	}
	p.Stages = all[0].Stage.All
	p.Warnings = slices.Concat(all[0].Warnings, idleSlices(grid, all), fewerChunks(&all[0].Stage))
	p.Lines = slices.Concat(j.describe(grid, all), j.stageLines(all), peakLines(all), balanceLines(p.EdgeColumns), movedLines(p.Sent, &all[0].Stage))
	return p
}

// describe says what the workers are and in which order they work. What a stage does is said once.
func (j *Job) describe(grid mesh.Mesh, all []workerPlan) []string {
	parameters, sites := 0, []string(nil)
	for stage := range grid.Stages {
		w := all[grid.Rank(mesh.Place{Stage: stage})]
		parameters += w.Parameters
		for _, s := range w.Sites {
			line := s.Site + ": " + s.What
			if grid.Slices > 1 {
				line += "; " + order.Moved(layoutBytes(all, s.Site))
			}
			sites = append(sites, line)
		}
	}
	workers, threads := "one worker", "one thread"
	if k := j.threads(); k > 1 {
		threads = fmt.Sprintf("%d threads", k)
	}
	if n := grid.Workers(); n > 1 {
		workers = fmt.Sprintf("%d workers", n)
		threads += " each"
	}
	model := j.Options.Model
	switch {
	case j.Options.Decoupled:
		model = "decoupled " + model
	case j.Options.Blocks != gnn.BlockForms[0]:
		model += " in residual blocks"
	}
	head := fmt.Sprintf("%s, %d layers, %d parameters, %s with %s, kernels for %s", model, j.Options.Layers,
		parameters, workers, threads, kernel.SIMD())
	return slices.Concat([]string{head}, all[0].Work, sites)
}

// layoutBytes are those that all workers send in a site's switches between layouts.
func layoutBytes(all []workerPlan, site string) (bytes int64) {
	for _, w := range all {
		bytes += w.LayoutBytes[site]
	}
	return bytes
}

// peakLines say what the worker that needs most takes of each kind of tensors.
func peakLines(all []workerPlan) (lines []string) {
	var most [tensor.Graph]int64
	for _, w := range all { // a worker whose plan failed has none
		for k, bytes := range w.Kinds {
			most[k] = max(most[k], bytes)
		}
	}
	for k, bytes := range most {
		lines = append(lines, fmt.Sprintf("%-12s %8.1f MB at the peak", tensor.Kind(k), float64(bytes)/1e6))
	}
	return lines
}

// movedLines say how many bytes the workers send to move rows, where they send any.
func movedLines(sent []Communication, stages *stagePlan) (lines []string) {
	all := SumOf(sent)
	for _, moved := range []struct {
		what string
		of   func(*Communication) Traffic
	}{
		{"rows and gradients between partitions", func(c *Communication) Traffic { return c.Halo }},
		{fmt.Sprintf("%d switches between rows and slices", all.Layout.Messages), func(c *Communication) Traffic { return c.Layout }},
		{stages.moved(), func(c *Communication) Traffic { return c.Stage }},
	} {
		largest := int64(0)
		for _, c := range sent {
			largest = max(largest, moved.of(&c).Bytes)
		}
		if sum := moved.of(&all).Bytes; sum > 0 {
			lines = append(lines, fmt.Sprintf("%s: %.1f MB an epoch, %.1f MB from the worker that sends most",
				moved.what, float64(sum)/1e6, float64(largest)/1e6))
		}
	}
	return lines
}

// plan finds out what one worker would take.
func (j *Job) plan(grid mesh.Mesh, rank int, share *partition.Share) (p workerPlan, err error) {
	mem := tensor.NewMeter()
	defer mem.Close()
	c := comm.New(comm.Plan(rank, grid.Workers()), 0)
	team := kernel.NewPlan(mem)
	team.Uncut = j.uncut
	w, err := newWorker(j, c, j.Options.task().outputs(&j.Options, &share.Whole), engine.Config{
		Team: team, Share: share, Training: true,
		Order: order.Options{Explain: func(site, what string) { p.Sites = append(p.Sites, explained{site, what}) }},
	})
	if err != nil {
		return p, err
	}
	var best nn.Snapshot
	epochs := 2
	if grid.Stages > 1 { // whose second tells what the chunks keep
		epochs = 3
	}
	for epoch := range epochs {
		before := w.done()
		if _, _, err := w.trainEpoch(context.Background(), 1+epoch); err != nil {
			return p, err
		}
		pass := w.done().since(before)
		p.Sent, p.EdgeColumns, p.LayoutBytes = pass.Sent, pass.EdgeColumns, pass.LayoutBytes
		if _, err := w.evaluate(); err != nil { // which may take more than a training pass
			return p, err
		}
		if epoch == 0 {
			w.params.Save(&best)
		}
	}
	best.Release()
	w.optimizer.Release()
	output := w.infer(0)
	if err := w.task.report(output.Value(), new(Result)); err != nil {
		return p, err
	}
	output.Drop()
	p.Sent.Gradient, p.Sent.Statistics = Traffic{}, Traffic{} // of which a plan makes no sums
	p.Tensors, p.Graph, p.Parameters = mem.Peak(), mem.Live(tensor.Graph), w.params.Count()
	for k := tensor.Features; k < tensor.Graph; k++ {
		p.Kinds = append(p.Kinds, mem.PeakOf(k))
	}
	p.Stage = w.planStage()
	p.Work = workOf(w.blocks, &share.Whole)
	o := &j.Options
	if o.NormalizeFeatures == "row" {
		if warning := doubtfulSums(&share.Values.Features, share.Values.Rows); warning != "" {
			p.Warnings = append(p.Warnings, warning)
		}
	}
	weighted := func(r partition.Relation) bool { return r.In.Weights != nil }
	if slices.ContainsFunc(share.Edges.Relations, weighted) && !j.usesEdgeWeights() {
		p.Warnings = append(p.Warnings, "the graph has edge weights, which "+o.Model+" does not use")
	}
	o.task().explain(w, &p)
	return p, nil
}

// lastCounts says what takes the place of a choice by vertices or edges that validate, where there are none.
func lastCounts(o *Options, what string) string {
	said := "no " + what + " validate, so the last epoch makes the results"
	if o.Patience > 0 {
		said += fmt.Sprintf(", and %s %d never runs out", refusal.Setting("patience"), o.Patience)
	}
	return said
}

// workOf says how much work a forward pass is, and how it is divided among the blocks; nothing where their
// costs are not known, as of a model of the caller's own.
func workOf(blocks []gnn.BlockSpec, whole *partition.Whole) []string {
	sum := 0.0
	for _, b := range blocks {
		sum += b.Cost.Of(whole.Vertices, whole.Edges)
	}
	if sum == 0 {
		return nil
	}
	var shares []string
	for i := 0; i < len(blocks); {
		cost, equal := blocks[i].Cost, 1
		for i+equal < len(blocks) && blocks[i+equal].Cost == cost {
			equal++
		}
		i += equal
		each := fmt.Sprintf("%.1f %%", 100*cost.Of(whole.Vertices, whole.Edges)/sum)
		if equal > 1 {
			each = fmt.Sprintf("%d × ", equal) + each
		}
		shares = append(shares, each)
	}
	return []string{fmt.Sprintf("a forward pass is %.3g billion multiply-adds; by layer: %s", sum/1e9, strings.Join(shares, ", "))}
}

// doubtfulSums says why features should not be divided by their sum in each row, "" where nothing speaks
// against it: they are 0 and 1 or counts, with sums of their own. It looks at some thousand rows from all
// over the graph.
func doubtfulSums(f *graph.Features, vertices int) string {
	const rows, tolerance = 4096, 1e-4
	negative, fraction, ones, others := float32(0), float32(0), 0, 0
	for v := 0; v < vertices; v += 1 + vertices/rows {
		sum, zero := 0.0, true
		for _, x := range f.Row(v) {
			sum, zero = sum+float64(x), zero && x == 0
			if x < 0 {
				negative = x
			} else if x != float32(math.Trunc(float64(x))) {
				fraction = x
			}
		}
		if math.Abs(sum-1) < tolerance {
			ones++
		} else if !zero {
			others++
		}
	}
	setting := refusal.Setting("normalize-features").String() + " row"
	switch {
	case negative < 0:
		return fmt.Sprintf("%s: features are below zero (%.3g), and a sum near zero makes a row of any size: leave it out", setting, negative)
	case ones > 0 && others == 0:
		return setting + " has no effect: each vertex's features add up to 1 already"
	case fraction > 0:
		return fmt.Sprintf("%s: features are real numbers (%.3g) and not counts, and may be normalised already: compare with a run without it",
			setting, fraction)
	}
	return ""
}

// usesEdgeWeights reports whether the model does, as far as that is known.
func (j *Job) usesEdgeWeights() bool {
	kind, _ := gnn.KindOf(j.Options.Model)
	return j.Model != nil || kind.EdgeWeights
}
