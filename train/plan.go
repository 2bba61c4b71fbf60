package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// Plan is what a run would take.
type Plan struct {
	PeakTensorBytes, GraphBytes []int64 // per worker
	HaloBytes                   []int64 // per worker, that it sends in a training pass but the first
	Lines                       []string
	Warnings                    []string // of what the run leaves unused, or may suffer from
}

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
	p, err = j.planOwn(ctx)
	if limit := int64(j.Options.MemoryLimit); err == nil && limit > 0 && p.most() > limit {
		j.uncut = true
		p, err = j.planOwn(ctx)
	}
	if c := j.peers(); c != nil { // the others wait for this worker's numbers even where it has none
		for _, list := range p.perWorker() {
			all, broken := comm.Gather(c, comm.Setup, append(*list, 0)[0])
			err = errors.Join(err, broken)
			*list = all
		}
	}
	if err != nil {
		return p, err
	}
	if grid.Workers() > 1 {
		p.Lines = append(p.Lines, haloLine(p.HaloBytes))
	}
	j.planned = &p
	return p, nil
}

// checkLimit refuses a run that would pass the memory limit of any process, as its plan says.
func (j *Job) checkLimit(ctx context.Context) error {
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

// planOwn plans for the workers of this process.
func (j *Job) planOwn(ctx context.Context) (p Plan, err error) {
	err = j.eachShare(ctx, func(rank int, share *partition.Share) error {
		one, err := j.plan(rank, share)
		if err != nil {
			return err
		}
		p.Warnings, p.Lines = one.Warnings, one.Lines
		for k, list := range p.perWorker() {
			*list = append(*list, *one.perWorker()[k]...)
		}
		return nil
	})
	return p, err
}

// most is what the worker that needs most takes, for tensors and graph.
func (p *Plan) most() (bytes int64) {
	for k := range p.PeakTensorBytes {
		bytes = max(bytes, p.PeakTensorBytes[k]+p.GraphBytes[k])
	}
	return bytes
}

// perWorker are the plan's lists.
func (p *Plan) perWorker() []*[]int64 {
	return []*[]int64{&p.PeakTensorBytes, &p.GraphBytes, &p.HaloBytes}
}

func haloLine(bytes []int64) string {
	sum := int64(0)
	for _, b := range bytes {
		sum += b
	}
	return fmt.Sprintf("rows and gradients between workers: %.1f MB an epoch, %.1f MB from the worker that sends most",
		float64(sum)/1e6, float64(slices.Max(bytes))/1e6)
}

func (j *Job) plan(rank int, share *partition.Share) (p Plan, err error) {
	grid, err := j.mesh()
	if err != nil {
		return p, err
	}
	mem := tensor.NewMeter()
	defer mem.Close()
	c := comm.New(comm.Plan(rank, grid.Workers()), 0)
	team := kernel.NewPlan(mem)
	team.Uncut = j.uncut
	w, err := newWorker(j, c, share.Whole.Classes, engine.Config{Team: team, Share: share, Training: true})
	if err != nil {
		return p, err
	}
	sent := int64(0)
	for epoch := range 2 {
		before := w.traffic()
		if _, _, err := w.trainEpoch(context.Background(), 1+epoch); err != nil {
			return p, err
		}
		if epoch == 0 {
			if _, err := w.evaluate(); err != nil {
				return p, err
			}
			w.params.Save(&nn.Snapshot{})
		}
		sent = w.traffic().since(before).communication().Halo.Bytes
	}
	o, n := &j.Options, grid.Workers()
	workers := "one worker"
	if n > 1 {
		workers = fmt.Sprintf("%d workers", n)
	}
	threads := "one thread"
	if k := j.threads(); k > 1 {
		threads = fmt.Sprintf("%d threads", k)
	}
	if n > 1 {
		threads += " each"
	}
	p.PeakTensorBytes, p.GraphBytes, p.HaloBytes = []int64{mem.Peak()}, []int64{mem.Live(tensor.Graph)}, []int64{sent}
	p.Lines = append(p.Lines, fmt.Sprintf("%s, %d layers, %d parameters, %s with %s, kernels for %s", o.Model, o.Layers,
		w.params.Count(), workers, threads, kernel.SIMD()))
	blocks, err := j.blocks(share.Whole.FeatureColumns, share.Whole.Classes)
	if err != nil {
		return p, err
	}
	p.Lines = append(p.Lines, workOf(blocks, &share.Whole)...)
	p.Lines = append(p.Lines, w.engine.Explain()...)
	for k := tensor.Features; k < tensor.Graph; k++ {
		p.Lines = append(p.Lines, fmt.Sprintf("%-12s %8.1f MB at the peak", k, float64(mem.PeakOf(k))/1e6))
	}
	if o.NormalizeFeatures == "row" {
		if warning := doubtfulSums(&share.Values.Features, share.Values.Rows); warning != "" {
			p.Warnings = append(p.Warnings, warning)
		}
	}
	weighted := func(r partition.Relation) bool { return r.In.Weights != nil }
	if slices.ContainsFunc(share.Edges.Relations, weighted) && !j.usesEdgeWeights() {
		p.Warnings = append(p.Warnings, "the graph has edge weights, which "+o.Model+" does not use")
	}
	labels := &share.Values.Labels
	if whole := grid.Partitions == 1; whole && labels.OneClass() || share.Whole.Classes == 1 && !labels.MultiLabel() {
		p.Warnings = append(p.Warnings, OneClass)
	}
	return p, nil
}

// workOf says how much work a forward pass is, and how it is divided among the blocks; nothing where their
// costs are not known, as of a model of the caller's own. Features count as dense.
func workOf(blocks []gnn.BlockSpec, whole *partition.Whole) []string {
	sum := 0.0
	for _, b := range blocks {
		sum += b.Cost.Of(whole.Vertices, whole.Edges)
	}
	if sum == 0 {
		return nil
	}
	line := fmt.Sprintf("a forward pass is %.3g billion multiply-adds; by layer:", sum/1e9)
	for _, b := range blocks {
		line += fmt.Sprintf(" %.0f %%", 100*b.Cost.Of(whole.Vertices, whole.Edges)/sum)
	}
	return []string{line}
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
