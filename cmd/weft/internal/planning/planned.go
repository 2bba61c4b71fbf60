package planning

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/tensor"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// Planned is a plan with its settings, which it can put into words.
type Planned struct {
	*plan.Plan
	Settings *setting.Resolved
	threads  int // threads of a worker
}

// PlanOf is the plan of a job with these settings.
func PlanOf(job *train.Job, settings *setting.Resolved, p *plan.Plan) Planned {
	return Planned{p, settings, job.Threads(settings)}
}

// Print prints the plan: for programs, or for the eye.
func (p Planned) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		var ofLinks []int64
		onDisk, bytes := p.Disk(), p.DiskBytes()
		if p.Cards != nil {
			onDisk, bytes = tensor.Moved{}, 0
		}
		if p.Settings.Task == task.Link && !p.Settings.TakesTurns() {
			ofLinks = p.sentBytes(links)
		}
		return ui.PrintJSON(out, struct {
			PeakTensorBytes []int64        `json:"peak_tensor_bytes"`
			GraphBytes      []int64        `json:"graph_bytes"`
			HaloBytes       []int64        `json:"halo_bytes"`
			LayoutBytes     []int64        `json:"layout_bytes"`
			StageBytes      []int64        `json:"stage_bytes"`
			LinksBytes      []int64        `json:"links_bytes,omitempty"`
			EdgeColumns     []int64        `json:"edge_columns"`
			KernelBytes     []layerBytes   `json:"kernel_bytes"`
			EdgeStates      *EdgeStates    `json:"edge_states,omitempty"`
			Disk            tensor.Moved   `json:"disk,omitzero"`
			DiskBytes       int64          `json:"disk_bytes,omitempty"`
			LeastBytes      int64          `json:"least_bytes,omitempty"`
			InMemoryBytes   int64          `json:"in_memory_bytes,omitempty"`
			Stages          []worker.Stage `json:"stages,omitempty"`
			Device          *plannedDevice `json:"device,omitempty"`
			Plan            []string       `json:"plan"`
		}{
			p.PeakTensorBytes, p.GraphBytes, p.sentBytes(halo), p.sentBytes(layout),
			p.sentBytes(stage), ofLinks,
			p.EdgeColumns, p.layerBytes(), p.EdgeStates(),
			onDisk, bytes,
			p.Least, p.All, p.Stages, p.device(), p.lines(),
		})
	}
	for _, line := range p.lines() {
		fmt.Fprintln(out, line)
	}
	if p.Settings.Offload != "" { // which of both rests when the other is largest may differ from run to run
		_, most := p.Most()
		fmt.Fprintf(out, "A worker needs %s for tensors and the graph together at most.\n", enough(most))
		return nil
	}
	fmt.Fprintf(out, "A worker needs %s for tensors and %s for the graph at most.\n",
		ui.Megabytes(slices.Max(p.PeakTensorBytes)), ui.Megabytes(slices.Max(p.GraphBytes)))
	return nil
}

// plannedDevice is the part of worker.DeviceUsage that a plan knows.
type plannedDevice struct {
	Name      string       `json:"name"`
	Driver    string       `json:"driver"`
	Cards     []int        `json:"cards"`
	PeakBytes int64        `json:"peak_bytes"`
	Messages  int64        `json:"message_bytes,omitempty"`
	Waiting   int64        `json:"waiting_bytes,omitempty"`
	RAM       tensor.Moved `json:"ram,omitzero"`
	RAMBytes  int64        `json:"ram_bytes,omitempty"`
	OnCPU     worker.OnCPU `json:"on_cpu"`
}

// device is what the plan says about the card; nil: the CPU computes.
func (p Planned) device() *plannedDevice {
	if p.Cards == nil {
		return nil
	}
	_, most := p.Most()
	return &plannedDevice{
		p.Cards.Name, p.Cards.Driver, p.Cards.Numbers, most, p.MessageBytes(), p.WaitingBytes(), p.Disk(),
		p.DiskBytes(), p.OnCPU,
	}
}

// rows are the rows of a table that apply, in words.
type rows []string

// say adds a row if it applies.
func (r *rows) say(applies bool, format string, args ...any) {
	if applies {
		*r = append(*r, fmt.Sprintf(format, args...))
	}
}

// mega is bytes in megabytes.
func mega[T int | int64](bytes T) float64 { return float64(bytes) / 1e6 }

// lines say what the workers would do, and what it takes.
func (p Planned) lines() []string {
	o, first := p.Settings, &p.Workers[0]
	var t rows
	p.model(&t)
	t.say(o.Validate != "", "the model is validated on %s: the memory of the workers includes it", o.Validate)
	if o.EvalEvery == setting.AutoEvery {
		t.say(first.OwnPass == "", ReadEvaluations)
		t.say(first.OwnPass != "", "a pass of its own evaluates each epoch, because of %s", first.OwnPass)
	}
	p.stages(&t)
	t = append(t, approximate(o)...)
	t.say(p.Recompute, "%s", p.Recomputed())
	states := p.EdgeStates()
	t.say(states != nil, "%s", states)
	sliced := o.Mesh.Slices > 1
	t.say(sliced && first.Common == 0, "each of the workers that slice a partition has a copy of its edges")
	t.say(sliced && first.Common > 0, "%d workers of a machine have the edges of the partition that they "+
		"slice in common, as the graph of the first", first.Common)
	t.say(p.Rests, "%s", p.rests())
	t.say(p.MessageBytes() > 0, "messages pass through %s of the host's memory%s",
		ui.Megabytes(p.MessageBytes()), ui.When(p.WaitingBytes() > 0, fmt.Sprintf(
			", and those to partitions that wait for their turn take %s at most", ui.Megabytes(p.WaitingBytes()))))
	t.say(len(p.OnCPU) > 0, "%s, between copies: no card has kernels for that", ui.RunsOnCPU(p.OnCPU))
	var peaks [tensor.Graph]int64
	saved, buffers := int64(0), int64(0)
	for _, w := range p.Workers {
		for k, bytes := range w.Kinds {
			peaks[k] = max(peaks[k], bytes)
		}
		saved, buffers = saved+w.Checkpoint, max(buffers, w.Checkpoint)
	}
	for k, bytes := range peaks {
		t.say(true, "%-12s %8.1f MB at the peak", tensor.Kind(k), mega(bytes))
	}
	every := o.CheckpointEvery.String()
	if n := o.CheckpointEvery.Epochs; n > 0 {
		every = ui.Counted(n, "epoch", "epochs")
	}
	t.say(saved > 0, "a checkpoint every %s: %.1f MB on disk, and %.1f MB of the buffers of a worker", every,
		mega(saved), mega(buffers))
	p.balance(&t)
	p.passes(&t)
	p.moved(&t)
	return t
}

// ReadEvaluations says that an evaluation needs no pass of its own.
const ReadEvaluations = "the forward pass of the next epoch evaluates each epoch, and a pass of its own the " +
	"last"

// model says what the workers are, and their order of work. The work of a stage is said once.
func (p Planned) model(t *rows) {
	o, grid := p.Settings, p.Settings.Mesh
	workers := "one worker"
	if o.Workers > 1 {
		workers = fmt.Sprintf("%d workers", o.Workers)
	}
	if o.TakesTurns() {
		workers = fmt.Sprintf("%d partitions that take turns on %s", grid.Partitions, workers)
	}
	threads := "one thread"
	if p.threads > 1 {
		threads = fmt.Sprintf("%d threads", p.threads)
	}
	kernels := kernel.SIMD()
	if c := p.Cards; c != nil {
		kernels = fmt.Sprintf("%s, of whose memory a worker may have %s", c, ui.Megabytes(c.Bytes))
	}
	depth := fmt.Sprintf("%d layers", o.Depth())
	if program := o.Program.Program; program != nil {
		depth = fmt.Sprintf("%d operations", len(program.Operations))
	}
	t.say(true, "%s%s%s, %s, %d parameters, %s with %s%s, kernels for %s",
		ui.When(o.Decoupled, "decoupled "),
		o.Model, ui.When(!o.Decoupled && o.BlockForm != gnn.BlockForms[0], " in residual blocks"), depth,
		p.Parameters(grid), workers, threads, ui.When(o.Workers > 1, " each"), kernels)
	short := o.Storage == tensor.BFloat16
	t.say(short, "values of vertices are stored and sent as bfloat16")
	t.say(short, "products of bfloat16: %s", productsFinding{By: kernel.BFloat16Products()}.words())
	if costs := p.Workers[0].Costs; costs != nil {
		t.say(true, "%s", work(costs))
	}
	t.say(o.Task == task.Link && o.TakesTurns() && o.Workers > 1, "the workers also send each other "+
		"embeddings of the ends of training and negative edges, and their gradients: negative edges are "+
		"drawn anew in each epoch, so these bytes are not planned where partitions take turns")
	t.say(o.Uses("output-heads") && o.OutputHeads != o.Heads, "the last layer has %s, and PyG's as many as "+
		"the others: --output-heads %d", ui.Counted(o.OutputHeads, "attention head", "attention heads"),
		o.Heads)
	for stage := range grid.Stages {
		for _, s := range p.Workers[grid.Rank(mesh.Coords{Stage: stage})].Layers {
			bytes := int64(0)
			for _, w := range p.Workers {
				bytes += w.LayoutBytes[s.Name]
			}
			t.say(true, "%s: %s%s", s.Name, s.What, ui.When(grid.Slices > 1, "; "+order.Moved(bytes)))
		}
	}
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
func (p Planned) stages(t *rows) {
	if p.Stages == nil {
		return
	}
	grid, c := p.Settings.Mesh, p.Workers[0].Chunks
	for _, rank := range p.Stages[0].Workers[1:] {
		chunks := &p.Workers[rank].Chunks
		c.Least, c.Most, c.Cut, c.Edges = min(c.Least, chunks.Least), max(c.Most, chunks.Most),
			c.Cut+chunks.Cut, c.Edges+chunks.Edges
	}
	t.say(c.Each == 1, "one chunk in each partition: training is exact, and only one stage works at a time")
	t.say(c.Each > 1, "%d chunks in each partition by %s, of %d to %d vertices; %.1f %% of the edges "+
		"between its vertices join two chunks", c.Each, p.Settings.ChunkMethod, c.Least, c.Most,
		100*float64(c.Cut)/max(float64(c.Edges), 1))
	t.say(grid.Partitions > 1 || grid.Slices > 1, "workers by rank: %d slices of a partition, %d partitions "+
		"of a stage, %d stages", grid.Slices, grid.Partitions, grid.Stages)
	var work []float64
	for s, stage := range p.Stages {
		work = append(work, stage.Work)
		tensors, graph := int64(0), int64(0)
		for _, rank := range stage.Workers {
			tensors, graph = max(tensors, p.PeakTensorBytes[rank]), max(graph, p.GraphBytes[rank])
		}
		t.say(true, "stage %d, %s: blocks %d to %d, %.1f %% of the work, at most %.1f MB for tensors and "+
			"%.1f MB for the graph", s, Who(&stage), stage.Blocks[0], stage.Blocks[1]-1, 100*stage.Work,
			mega(tensors), mega(graph))
	}
	t.say(p.Settings.ChunkOrder != axis.Fixed && c.Least < c.Most, "memory is a bound for any order of the "+
		"chunks, which differ in size: a run may need a little less")
	t.say(true, "the busiest stage has %.2f times the mean work; each stage is idle for %.1f %% of an epoch "+
		"while the pipeline fills and drains", worker.Imbalance(work),
		100*float64(len(p.Stages)-1)/float64(c.Each+len(p.Stages)-1))
}

// Who lists the workers of a stage.
func Who(s *worker.Stage) string {
	if n := len(s.Workers); n > 1 {
		return fmt.Sprintf("workers %d to %d", s.Workers[0], s.Workers[n-1])
	}
	return fmt.Sprintf("worker %d", s.Workers[0])
}

// rests says what rests on disk. If processes with several partitions each plan, messages of link prediction
// between them are planned at their largest.
func (p Planned) rests() string {
	where, memory := "on disk", "memory"
	if p.Cards != nil {
		where, memory = "in the host's memory", "the card's memory"
	}
	line := fmt.Sprintf("nothing rests %s, as all fits in %s", where, memory)
	if moved := p.Disk(); moved != (tensor.Moved{}) {
		parts := "partitions"
		if p.Stages != nil {
			parts = "chunks"
		}
		line = fmt.Sprintf("matrices of %s that are not at work rest %s: %s%s written and %s "+
			"read an epoch, %s there at the peak", parts, where, ui.When(p.AtMost, "at most "),
			ui.Megabytes(moved.Written), ui.Megabytes(moved.Read), ui.Megabytes(p.DiskBytes()))
	}
	return line + ui.When(p.All > 0, fmt.Sprintf("; a worker needs %s at least, and %s for nothing to rest",
		enough(p.Least), enough(p.All)))
}

// enough is megabytes, rounded up so that they suffice as a memory limit.
func enough(bytes int64) string { return setting.Bytes(bytes).RoundedUp() }

// approximate says how values travel between workers, if they are not sent as they are stored, or not all in
// each epoch.
func approximate(r *setting.Resolved) []string {
	var t rows
	t.say(r.Wire.Format(r.Storage) != kernel.AsStored, "workers send values of vertices and their gradients "+
		"in %s, which makes training approximate", r.Wire)
	if s := r.WireSchedule; s != (axis.WireSchedule{}) {
		t.say(true, "of the columns of halo rows partitions send %.3g %% in epoch 1, %.3g %% in epoch %d "+
			"and %.3g %% in the mean, which makes training approximate; bytes, memory and times are those "+
			"of the last epoch, which sends most", 100/s.Ratio(1, r.Epochs), 100/s.Ratio(r.Epochs, r.Epochs),
			r.Epochs,
			100*s.Mean(r.Epochs))
	}
	return t
}

// Recomputed says what the backward pass computes again.
func (p Planned) Recomputed() string {
	if p.Settings.Mesh.Stages > 1 {
		return "each stage computes a chunk's forward pass again in its backward pass, and keeps its input " +
			"alone"
	}
	return "the backward pass computes values within each block again, and keeps results of aggregations" +
		ui.When(p.Limited(), fmt.Sprintf(", as --memory-limit %s needs it", p.Settings.MemoryLimit))
}

// Limited reports whether the run recomputes because of the memory limit.
func (p Planned) Limited() bool { return p.Recompute && len(p.Settings.Recomputes()) > 1 }
