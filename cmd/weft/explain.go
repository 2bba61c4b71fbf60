package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/gnn"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/tensor"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// planned is a plan with its settings, to put into words.
type planned struct {
	*plan.Plan
	settings *setting.Resolved
	threads  int // of a worker
}

// lines say what the workers would do, and what that takes.
func (p planned) lines() []string {
	return slices.Concat(p.model(), p.validated(), p.evaluated(), p.stages(), p.encoded(), p.delayed(),
		p.recomputed(), p.edges(), p.rests(), p.peaks(), p.checkpoints(), p.balance(), p.passes(), p.moved())
}

// validated says which other graph the model is validated on.
func (p planned) validated() []string {
	if p.settings.Validate == "" {
		return nil
	}
	return []string{"the model is validated on " + p.settings.Validate +
		": the memory of the workers includes it"}
}

// evaluated says which pass evaluates an epoch, where the settings leave it open.
func (p planned) evaluated() []string {
	switch of := p.settings.OwnPass(); {
	case p.settings.EvalEvery != setting.AutoEvery:
		return nil
	case of != "":
		return []string{"a pass of its own evaluates each epoch, because of " + of}
	}
	return []string{readEvaluations}
}

// readEvaluations says that an evaluation needs no pass of its own.
const readEvaluations = "the forward pass of the next epoch evaluates each epoch, and a pass of its own the " +
	"last"

// checkpoints says what a checkpoint takes.
func (p planned) checkpoints() []string {
	all, most := int64(0), int64(0)
	for _, w := range p.Workers {
		all, most = all+w.Checkpoint, max(most, w.Checkpoint)
	}
	if all == 0 {
		return nil
	}
	return []string{fmt.Sprintf("a checkpoint every %s: %.1f MB on disk, and %.1f MB of the buffers "+
		"of a worker", p.often(), float64(all)/1e6, float64(most)/1e6)}
}

// often is the time from one checkpoint to the next.
func (p planned) often() string {
	if every := p.settings.CheckpointEvery; every.Epochs > 0 {
		return counted(every.Epochs, "epoch", "epochs")
	}
	return p.settings.CheckpointEvery.String()
}

// warnings say what the run would not use, and what may harm it.
func (p planned) warnings() (warnings []string) {
	o, first := p.settings, &p.Workers[0]
	if o.NormalizeFeatures == "row" {
		warnings = append(warnings, doubtfulSums(first.RowSums)...)
	}
	if s := first.Scales; s != nil {
		warnings = append(warnings, fmt.Sprintf("the features%s have scales far apart: the deviation of "+
			"column %d is %.3g, and that of column %d is %.3g; --normalize-features %s brings each to 1, "+
			"and none leaves them",
			when(s.Type != "", " of "+s.Type), s.Least.Column, s.Least.Deviation, s.Most.Column,
			s.Most.Deviation, setting.Standard))
	}
	if first.UnusedWeights {
		warnings = append(warnings, "the graph has edge weights, which "+o.Model+" does not use; "+
			setting.WeightedModels()+" do")
	}
	if first.UnusedEdgeFeatures > 0 {
		said := "the graph has edge features, which " + o.Model + " does not use"
		if p.settings.Uses("use-edge-features") {
			said += "; --use-edge-features has it use them"
		}
		if kind, _ := gnn.KindOf(o.Model); first.UnusedEdgeFeatures == 1 && kind.EdgeWeights {
			said += "; if they are weights, give them as such (edge_weight)"
		}
		warnings = append(warnings, said)
	}
	if names := first.UnusedRelations; len(names) > 0 {
		warnings = append(warnings, fmt.Sprintf("no layer aggregates along %s, since nothing that the "+
			"model learns depends on it; import with --reverse-relations to use edges in reverse, too",
			strings.Join(names, ", ")))
	}
	if first.OneClass {
		warnings = append(warnings, oneClass)
	}
	if !first.Validates {
		what := map[string]string{task.Vertex: "vertices", task.Link: "edges"}[o.Task]
		said := "there are no validation " + what + ", so the results are those of the last epoch"
		if o.Patience > 0 {
			said += fmt.Sprintf(", and --patience %d never runs out", o.Patience)
		}
		warnings = append(warnings, said)
	}
	warnings = append(warnings, p.idleSlices()...)
	if c := first.Chunks; c.Each != c.Wanted {
		warnings = append(warnings, fmt.Sprintf("--chunks %s: %d in each partition and not %d, as the "+
			"smallest has no more vertices", axis.Chunks(0), c.Each, c.Wanted))
	}
	return warnings
}

// oneClass is the warning for a graph whose labels are all one class.
const oneClass = "all labels of the graph are one class, so there is nothing to learn"

// model says what the workers are, and their order of work. A stage's work is said once.
func (p planned) model() []string {
	o, grid := p.settings, p.settings.Mesh
	var layers []string
	for stage := range grid.Stages {
		w := p.Workers[grid.Rank(mesh.Place{Stage: stage})]
		for _, s := range w.Layers {
			line := s.Name + ": " + s.What
			if grid.Slices > 1 {
				bytes := int64(0)
				for _, w := range p.Workers {
					bytes += w.LayoutBytes[s.Name]
				}
				line += "; " + order.Moved(bytes)
			}
			layers = append(layers, line)
		}
	}
	workers, threads := "one worker", "one thread"
	if p.threads > 1 {
		threads = fmt.Sprintf("%d threads", p.threads)
	}
	if n := o.Workers; n > 1 {
		workers = fmt.Sprintf("%d workers", n)
		threads += " each"
	}
	if o.TakesTurns() {
		workers = fmt.Sprintf("%d partitions that take turns on %s", grid.Partitions, workers)
	}
	model := o.Model
	switch {
	case o.Decoupled:
		model = "decoupled " + model
	case o.BlockForm != gnn.BlockForms[0]:
		model += " in residual blocks"
	}
	lines := []string{fmt.Sprintf("%s, %d layers, %d parameters, %s with %s, kernels for %s",
		model, o.Depth(),
		p.Parameters(grid), workers, threads, kernel.SIMD())}
	if o.Storage == tensor.BFloat16 {
		lines = append(lines, "values of vertices are stored and sent as bfloat16",
			"products of bfloat16: "+productsFinding{By: kernel.BFloat16Products()}.words())
	}
	if costs := p.Workers[0].Costs; costs != nil {
		lines = append(lines, work(costs))
	}
	if o.Task == task.Link && o.TakesTurns() && o.Workers > 1 {
		lines = append(lines, "the workers also send each other embeddings of the ends of training and "+
			"negative edges, and their gradients: negative edges are drawn anew in each epoch, so these "+
			"bytes are not planned where partitions take turns")
	}
	if o.Uses("output-heads") && o.OutputHeads != o.Heads {
		lines = append(lines, fmt.Sprintf("the last layer has %s, and PyG's as many as the others: "+
			"--output-heads %d",
			counted(o.OutputHeads, "attention head", "attention heads"),
			o.Heads))
	}
	return append(lines, layers...)
}

// work says how much work a forward pass is, and each block's share of it.
func work(costs []float64) string {
	sum := 0.0
	for _, c := range costs {
		sum += c
	}
	var shares []string
	for i := 0; i < len(costs); {
		cost, equal := costs[i], 1
		for i+equal < len(costs) && costs[i+equal] == cost {
			equal++
		}
		i += equal
		each := fmt.Sprintf("%.1f %%", 100*cost/sum)
		if equal > 1 {
			each = fmt.Sprintf("%d × ", equal) + each
		}
		shares = append(shares, each)
	}
	return fmt.Sprintf("a forward pass is %.3g billion multiply-adds; by layer: %s", sum/1e9,
		strings.Join(shares, ", "))
}

// stages say which blocks each stage has, and how the vertices are divided into chunks.
func (p planned) stages() (lines []string) {
	if p.Stages == nil {
		return nil
	}
	c := p.Workers[0].Chunks
	for _, rank := range p.Stages[0].Workers[1:] {
		of := &p.Workers[rank].Chunks
		c.Least, c.Most, c.Cut, c.Edges = min(c.Least, of.Least), max(c.Most, of.Most),
			c.Cut+of.Cut, c.Edges+of.Edges
	}
	line := "one chunk in each partition: training is exact, and only one stage works at a time"
	if c.Each > 1 {
		line = fmt.Sprintf("%d chunks in each partition by %s, of %d to %d vertices; %.1f %% of the edges "+
			"between its vertices join two chunks",
			c.Each, p.settings.ChunkMethod, c.Least, c.Most, 100*float64(c.Cut)/max(float64(c.Edges), 1))
	}
	lines = append(lines, line)
	if grid := p.settings.Mesh; grid.Partitions > 1 || grid.Slices > 1 {
		lines = append(lines, fmt.Sprintf("workers by rank: %d slices of a partition, %d partitions of a "+
			"stage, %d stages",
			grid.Slices, grid.Partitions, grid.Stages))
	}
	var work []float64
	for s, stage := range p.Stages {
		work = append(work, stage.Work)
		tensors, graph := int64(0), int64(0)
		for _, rank := range stage.Workers {
			tensors, graph = max(tensors, p.PeakTensorBytes[rank]), max(graph, p.GraphBytes[rank])
		}
		lines = append(lines, fmt.Sprintf("stage %d, %s: blocks %d to %d, %.1f %% of the work, at most "+
			"%.1f MB for tensors and %.1f MB for the graph",
			s, who(&stage), stage.Blocks[0], stage.Blocks[1]-1, 100*stage.Work, float64(tensors)/1e6,
			float64(graph)/1e6))
	}
	if p.settings.ChunkOrder != axis.Fixed && c.Least < c.Most {
		lines = append(lines, "memory is a bound for any order of the chunks, which differ in size: a run "+
			"may need a little less")
	}
	idle := float64(len(p.Stages)-1) / float64(c.Each+len(p.Stages)-1)
	return append(lines, fmt.Sprintf("the busiest stage has %.2f times the mean work; each stage is idle "+
		"for %.1f %% of an epoch while the pipeline fills and drains",
		worker.Imbalance(work), 100*idle))
}

// who lists the workers of a stage.
func who(s *worker.Stage) string {
	if n := len(s.Workers); n > 1 {
		return fmt.Sprintf("workers %d to %d", s.Workers[0], s.Workers[n-1])
	}
	return fmt.Sprintf("worker %d", s.Workers[0])
}

// peaks say how much memory of each kind the largest worker takes.
func (p planned) peaks() (lines []string) {
	var most [tensor.Graph]int64
	for _, w := range p.Workers {
		for k, bytes := range w.Kinds {
			most[k] = max(most[k], bytes)
		}
	}
	for k, bytes := range most {
		lines = append(lines, fmt.Sprintf("%-12s %8.1f MB at the peak", tensor.Kind(k), float64(bytes)/1e6))
	}
	return lines
}

// edges says how many copies there are of the edges of a partition that workers slice.
func (p planned) edges() []string {
	n := p.Workers[0].Common
	switch {
	case p.settings.Mesh.Slices == 1:
		return nil
	case n == 0:
		return []string{"each of the workers that slice a partition has a copy of its edges"}
	}
	return []string{fmt.Sprintf("%d workers of a machine have the edges of the partition that they slice in "+
		"common, as the graph of the first", n)}
}

// rests says what rests on disk.
func (p planned) rests() (lines []string) {
	if !p.Rests {
		return nil
	}
	moved := p.Disk()
	line := "nothing rests on disk, as all fits in memory"
	if moved != (tensor.Moved{}) {
		line = fmt.Sprintf("matrices of partitions that are not at work rest on disk: %s%s written and %s "+
			"read an epoch, %s there at the peak",
			p.bound(), megabytes(moved.Written), megabytes(moved.Read), megabytes(p.DiskBytes()))
	}
	if p.All > 0 {
		line += fmt.Sprintf("; a worker needs %s at least, and %s for nothing to rest",
			enough(p.Least), enough(p.All))
	}
	return []string{line}
}

// bound says whether a run may move fewer bytes than planned: where processes that hold several partitions
// plan, messages of link prediction between them are planned at their largest.
func (p planned) bound() string {
	if p.AtMost {
		return "at most "
	}
	return ""
}

// enough is megabytes of no less: as a memory limit, it suffices.
func enough(bytes int64) string { return setting.Bytes(bytes).RoundedUp() }

// encoded says how values travel, if not as they are stored.
func (p planned) encoded() []string {
	return append(narrowed(p.settings), scheduled(&p.settings.Options)...)
}

// narrowed says in which format values travel, if not as they are stored.
func narrowed(r *setting.Resolved) []string {
	if r.Wire.Format(r.Storage) == kernel.AsStored {
		return nil
	}
	return []string{fmt.Sprintf("workers send values of vertices and their gradients in %s, which makes "+
		"training approximate", r.Wire)}
}

// scheduled says which columns travel, if not all do in each epoch.
func scheduled(o *setting.Options) []string {
	s := o.WireSchedule
	if s == (axis.WireSchedule{}) {
		return nil
	}
	return []string{fmt.Sprintf("of the columns of halo rows partitions send %.3g %% in epoch 1, %.3g %% "+
		"in epoch %d and %.3g %% in the mean, which makes training approximate; bytes, memory and times "+
		"are those of the last epoch, which sends most",
		100/s.Ratio(1, o.Epochs), 100/s.Ratio(o.Epochs, o.Epochs), o.Epochs, 100*s.Mean(o.Epochs))}
}

// delayed says that the halo is an epoch late, and what that takes.
func (p planned) delayed() []string {
	if p.settings.HaloDelay == 0 {
		return nil
	}
	line := "workers read each other's rows of the epoch before, and add gradients of the epoch before " +
		"(PipeGCN), which makes training approximate"
	switch p.settings.HaloSmoothing {
	case axis.OfBoth:
		line += "; moving averages replace both"
	case axis.OfFeatures:
		line += "; moving averages replace the rows"
	case axis.OfGradients:
		line += "; moving averages replace the gradients"
	}
	return []string{line}
}

// recomputed says what the backward pass computes again.
func (p planned) recomputed() []string {
	switch {
	case !p.Recompute:
		return nil
	case p.settings.Mesh.Stages > 1:
		return []string{"each stage computes a chunk's forward pass again in its backward pass, and keeps " +
			"its input alone"}
	}
	return []string{"the backward pass computes values within each block again, and keeps results of " +
		"aggregations" + p.neededBy()}
}

// neededBy names the memory limit, if the run recomputes because of it.
func (p planned) neededBy() string {
	if len(p.settings.Recomputes()) == 1 {
		return ""
	}
	return fmt.Sprintf(", as --memory-limit %s needs it", p.settings.MemoryLimit)
}

// listedWorkers is the largest number of workers whose numbers are on one line.
const listedWorkers = 16

// together is the memory for tensors and the graph of the worker with most.
func (p planned) together() (most int64) {
	for worker, tensors := range p.PeakTensorBytes {
		most = max(most, tensors+p.GraphBytes[worker])
	}
	return most
}

// balance says how much each of several workers aggregates.
func (p planned) balance() []string {
	most := slices.Max(p.EdgeColumns)
	if len(p.EdgeColumns) == 1 || most == 0 {
		return nil
	}
	line := fmt.Sprintf("edges × columns aggregated an epoch: %.3g million on the worker with most, %.2f "+
		"times the mean",
		float64(most)/1e6, worker.Imbalance(p.EdgeColumns))
	if len(p.EdgeColumns) <= listedWorkers {
		line += "; by worker"
		for _, n := range p.EdgeColumns {
			line += fmt.Sprintf(" %.3g", float64(n)/1e6)
		}
	}
	return []string{line}
}

// passes says how many bytes kernels read and write, by layer. Equal layers in a row share a line.
func (p planned) passes() (lines []string) {
	all := p.Bytes()
	layers := all[:len(all)-1]
	for first := 0; first < len(layers); {
		equal := 1
		for first+equal < len(layers) && layers[first+equal] == layers[first] {
			equal++
		}
		of := fmt.Sprintf("layer %d:", first)
		if equal > 1 {
			of = fmt.Sprintf("layers %d–%d, each:", first, first+equal-1)
		}
		f, b := &layers[first].Forward, &layers[first].Backward
		both := func(forward, backward int) string {
			return fmt.Sprintf("%.1f + %.1f MB", float64(forward)/1e6, float64(backward)/1e6)
		}
		lines = append(lines, fmt.Sprintf("%s kernels stream %s (forward + backward), of which products and "+
			"sums need %s, and gather %s", of, both(f.Streamed, b.Streamed), both(f.Least, b.Least),
			both(f.Gathered, b.Gathered)))
		first += equal
	}
	return lines
}

// layerBytes is plan.Plan.Bytes for programs.
type layerBytes struct {
	Layer    int         `json:"layer"` // −1: outside all layers
	Forward  passedBytes `json:"forward,omitzero"`
	Backward passedBytes `json:"backward,omitzero"`
	Rest     passedBytes `json:"rest,omitzero"`
}

type passedBytes struct {
	Streamed int `json:"streamed"`
	Least    int `json:"least"`
	Written  int `json:"written"`
	Gathered int `json:"gathered"`
}

func (p planned) layerBytes() (list []layerBytes) {
	all := p.Bytes()
	for layer, b := range all {
		if layer == len(all)-1 {
			layer = -1
		}
		list = append(list,
			layerBytes{layer, passedBytes(b.Forward), passedBytes(b.Backward), passedBytes(b.Rest)})
	}
	return list
}

// moved says how many bytes workers send to move rows and, between stages, how many GNNPipe's formula gives.
func (p planned) moved() (lines []string) {
	all, c := worker.SumOf(p.Sent), &p.Workers[0].Chunks
	say := func(of func(*worker.Communication) worker.Traffic, what string, about ...any) {
		if sum := of(&all).Bytes; sum > 0 {
			lines = append(lines, fmt.Sprintf("%s: %.1f MB an epoch, %.1f MB from the worker that sends most",
				fmt.Sprintf(what, about...), float64(sum)/1e6, float64(slices.Max(p.sent(of)))/1e6))
		}
	}
	say(halo, "rows and gradients between partitions")
	say(layout, "%d all-to-alls between rows and slices", all.Layout.Messages)
	say(stage, "activations and gradients between stages (2·V·4 bytes of %d columns at all cuts: %.1f MB)",
		c.Columns, float64(c.Bytes)/1e6)
	say(links, "embeddings of the ends of training and negative edges, and their gradients (in the last "+
		"epoch: negative edges are drawn anew in each)")
	return lines
}

// The kinds of rows that workers send.
func halo(c *worker.Communication) worker.Traffic   { return c.Halo }
func layout(c *worker.Communication) worker.Traffic { return c.Layout }
func stage(c *worker.Communication) worker.Traffic  { return c.Stage }
func links(c *worker.Communication) worker.Traffic  { return c.Links }

// sent is the bytes of a kind that each worker sends.
func (p planned) sent(of func(*worker.Communication) worker.Traffic) (bytes []int64) {
	for _, c := range p.Sent {
		bytes = append(bytes, of(&c).Bytes)
	}
	return bytes
}

// idleSlices warns of layers where some slices of a mesh have no columns.
func (p planned) idleSlices() (warnings []string) {
	grid := p.settings.Mesh
	if grid.Slices == 1 {
		return nil
	}
	// byLayer: the work of each slice
	partitions, byLayer := p.settings.Workers/(grid.Slices*grid.Stages), map[string][]int64{}
	for number, w := range p.Workers {
		for module, n := range w.EdgeColumns {
			if byLayer[module] == nil {
				byLayer[module] = make([]int64, grid.Slices)
			}
			byLayer[module][number%grid.Slices] += n
		}
	}
	byBusy := map[int][]string{} // layers, by the number of slices with columns
	for _, module := range slices.Sorted(maps.Keys(byLayer)) {
		busy := 0
		for _, n := range byLayer[module] {
			if n > 0 {
				busy++
			}
		}
		byBusy[busy] = append(byBusy[busy], module)
	}
	for _, busy := range slices.Sorted(maps.Keys(byBusy)) {
		if busy == 0 || busy == grid.Slices { // no slice aggregates there, or all do
			continue
		}
		take := fmt.Sprintf("graph=%d, which divides the vertices", p.settings.Workers)
		if busy > 1 {
			fewer := mesh.Mesh{Stages: grid.Stages, Partitions: partitions, Slices: busy}
			take = fmt.Sprintf("%s, or %s", setting.Axes(fewer), take)
		}
		warnings = append(warnings, fmt.Sprintf("%s: columns for %d of %d slices, and the others "+
			"aggregate nothing there; take --parallel %s",
			strings.Join(byBusy[busy], ", "), busy, grid.Slices, take))
	}
	return warnings
}

// doubtfulSums says why rows of features should perhaps not be divided by their sums: the features are
// neither 0 and 1 nor counts, or all sums are 1.
func doubtfulSums(r plan.RowSums) []string {
	const setting = "--normalize-features row"
	switch {
	case r.Negative < 0:
		return []string{fmt.Sprintf("%s: features are below zero (%.3g), and a sum near zero makes a row "+
			"of any size: leave it out", setting, r.Negative)}
	case r.Ones > 0 && r.Others == 0:
		return []string{setting + " has no effect: each vertex's features add up to 1 already"}
	case r.Fraction > 0:
		return []string{fmt.Sprintf("%s: features are real numbers (%.3g) and not counts, and may be "+
			"normalised already: compare with a run without it",
			setting, r.Fraction)}
	}
	return nil
}
