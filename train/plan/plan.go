// Package plan computes what a run would take, before any work. Each worker runs an epoch and an evaluation
// with kernels that do nothing. It allocates the same matrices, but touches no page of them. A plan is
// numbers; command weft puts them into words.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"weft/checkpoint"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/turns"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// Plan is what a run would take.
type Plan struct {
	PeakTensorBytes, GraphBytes []int64 // per worker
	// per worker, in a training pass after the first; of a wire schedule, in the last
	Sent []worker.Communication
	// per worker, in such a pass: aggregated edges × columns
	EdgeColumns []int64
	Stages      []worker.Stage // if the mesh has several
	// Savings are those of the settings, and those that the memory limit needs.
	worker.Savings
	// ResultBytes is the size of weights and predictions, without learned tables.
	ResultBytes int64
	// Workers are the plans of all workers. Of several processes that plan together the first one alone knows
	// all of each; others know memory, disk and parameters, and all of the first and of their own.
	Workers []Worker
	// Rests says that matrices may rest on disk, as far as Limit needs it: the memory limit or, without one,
	// the least that the workers need. Least and All are the memory that a worker needs at least, and with
	// which nothing rests, if Inputs.Range asked for them; else 0.
	Rests             bool
	Limit, Least, All int64
	// InMemory says that nothing rests, as all fits without: the run takes no disk.
	InMemory bool
	Turns    bool         // partitions of a worker take turns
	Card     *worker.Card // on which the workers compute; nil: the CPU
	OnCPU    worker.OnCPU // the kernels that no card has, without bytes
	AtMost   bool         // Disk bounds what messages of link prediction between workers move

	recomputes bool // values computed again are among what was planned
	halves     bool // values of vertices would take half as much in bfloat16
}

// Worker is the plan of one worker. The numbers of the graph are its partition's.
type Worker struct {
	Tensors, Graph int64   // bytes at the peak
	Resting        int64   // bytes of tensors and graph between the passes of a Loop, while none lives
	Kinds          []int64 // of Tensors at the peak, by tensor.Kind, without Graph
	// in a training pass but the first; without Gradient and Statistics if partitions take turns
	Sent   worker.Communication
	Counts Counts       `json:"-"` // of such a pass, on the process that planned it, if Inputs.Counts asked
	Disk   tensor.Moved // in such an epoch, with the evaluation before it
	// that rest on disk, or in the host's memory, at the peak, or a bound with messages of other workers
	DiskBytes   int64
	Messages    int64            // bytes of the host's pinned memory, through which a card's messages pass
	Reserve     turns.Reserve    // of messages between workers, where matrices may rest
	OnCPU       map[string]int64 // the kernels that no card has
	EdgeColumns worker.ByLayer   // aggregated edges × columns in such a pass
	LayoutBytes worker.ByLayer   // sent in all-to-alls between layouts in such a pass
	// Bytes of kernels in such a pass, by block of the model; the last: outside all blocks, as the loss
	Bytes       []LayerBytes
	Common      int // workers, with this one, that have its edges in common; 0: none have
	Parameters  int // values, of its stage
	Predictions int // values, of all workers
	// bytes of its part of a checkpoint, and of the snapshot in memory; 0: there are none
	Checkpoint int64
	// multiply-adds of each block of the whole model in a forward pass; nil: unknown
	Costs  []float64
	Layers []Layer // in the order of their first forward pass
	Stages []worker.Stage
	Chunks Chunks
	// Validates says that there are validation vertices or edges. OneClass says that there is one class, so
	// nothing to learn. UnusedWeights says that the model ignores the weights of the edges.
	Validates, OneClass, UnusedWeights bool
	UnusedEdgeFeatures                 int      // columns of the edges' features that the model ignores
	UnusedRelations                    []string // along which no layer aggregates
	RowSums                            RowSums  // if features are divided by their sums
	// Scales that make it hard to learn; nil: there are none, or it is another worker than the first.
	Scales *Scales
	// Like is the number of the worker that was planned in its place, mostly its own.
	Like int `json:"-"`

	widths []int // of the columns that slices divide
}

// Layer is what a layer of the model does, in words.
type Layer struct{ Name, What string }

// Chunks is a worker's chunks in a pipeline; zero without one.
type Chunks struct {
	Each, Wanted int   // in each partition, and if the smallest were larger
	Least, Most  int   // rows of a chunk of the worker's partition
	Cut, Edges   int64 // edges of that partition: between two chunks, and all
	// Columns are sent at the stage boundaries for each vertex: Bytes, forward and backward.
	Columns int
	Bytes   int64
}

// RowSums are the sums of a sample of a share's feature rows.
type RowSums struct {
	Negative, Fraction float32 // a negative value and a fraction among them; 0: none
	Ones, Others       int     // rows with the sum 1, and with another sum but 0
}

// Inputs are the inputs of a plan.
type Inputs struct {
	worker.Config
	// connects this process, which is one worker, to the others; alone: it runs all workers
	Comm    *comm.Comm
	Threads int // of each worker
	// Open opens the share of a partition for use.
	Open func(partition int, use func(*partition.Share) error) error
	// Validation opens in the same way the graph that the model is validated on, nil if it is the same.
	Validation func(partition int, use func(*worker.Validation) error) error
	Asks
	// Checkpoints says that the run may write checkpoints, from a snapshot in memory, or continue from one.
	Checkpoints bool
}

// Asks are what a plan computes besides, and what it may leave out.
type Asks struct {
	// Range asks for Plan.Least and Plan.All, which takes two more plans, and for Sent.Links.
	Range bool
	// Counts asks for Worker.Counts and Sent.Links, those of the last epoch, which takes a pass over the
	// edges.
	Counts bool
	// MostSteps refuses a plan in which the steps of the planned workers are more, if all have as many as the
	// first; 0: no limit.
	MostSteps int
	// Alike says that all partitions are like the first one, which is opened in their place and whose workers
	// stand for those of the others, and that chunks are consecutive rows.
	Alike bool
	// Most asks to plan about so many workers where there are more, of which each stands for those like it;
	// 0: all are planned.
	Most int
	// LargerBy is axis.Env's.
	LargerBy float64
	// Loop is a caller's, in place of a run's epochs; nil: those. Numbers of an epoch are those of a pass.
	Loop *Loop
	// Saving fixes the savings; nil: the first that meet the memory limit.
	Saving *worker.Savings
	// InMemory is the plan of the same inputs without a memory limit, where nothing rests; nil: it is made
	// where matrices may rest. Several processes have none.
	InMemory *Plan
}

// Loop is a training loop of a caller, who asks for passes (worker.Passes).
type Loop struct {
	Passes int // so many live at a time, each with the parameters of the others
	// Features and Edges are what each pass is given, as a worker.Forward has them. Of values a plan reads
	// whether there are any: passes keep all edges.
	Features []worker.Given
	Edges    []worker.Edges
}

// links says whether Sent.Links are asked for.
func (a Asks) links() bool { return a.Range || a.Counts }

// Of plans for the mesh of the settings. It takes the first savings that meet the memory limit, or those that
// need the least memory. All processes call it together; it fails on all if it fails on any. If ctx is
// cancelled it returns the cause.
func Of(ctx context.Context, in Inputs) (p Plan, err error) {
	if in.Fetches, err = in.fetches(); err != nil {
		return Plan{}, err
	}
	p.Turns, p.Rests, p.Card, p.OnCPU = in.TakesTurns(), in.Offload != "", in.Card, worker.OnCPU{}
	p.halves = in.Storage != tensor.BFloat16
	p.AtMost = p.Turns && in.Workers > 1 && in.Task == task.Link && !in.Fetches.Known()
	if p.Rests {
		if p.Card != nil {
			in = in.with(setting.Bytes(p.Card.Bytes), in.Offload)
		}
		if err := p.rest(ctx, in); err != nil {
			return Plan{}, err
		}
	} else {
		limit := int64(in.MemoryLimit)
		if p.Card != nil {
			limit = p.Card.Bytes
		}
		err = p.save(ctx, in, limit)
	}
	if in.Comm.Size() > 1 {
		if err != nil { // the others wait
			p.Workers = []Worker{{}}
		}
		all, broken := together(in.Comm, p.Workers[0])
		p.Workers = all
		err = errors.Join(err, broken)
	}
	if err != nil {
		return Plan{}, err
	}
	for _, w := range p.Workers {
		p.PeakTensorBytes, p.GraphBytes = append(p.PeakTensorBytes, w.Tensors), append(p.GraphBytes, w.Graph)
		p.Sent, p.EdgeColumns = append(p.Sent, w.Sent), append(p.EdgeColumns, w.EdgeColumns.Sum())
		p.OnCPU.Add(w.OnCPU)
	}
	p.Stages = p.Workers[0].Stages
	p.ResultBytes = 4 * int64(p.Parameters(in.Mesh)+p.Workers[0].Predictions)
	return p, nil
}

// save plans the workers of this process, with the first savings that meet a limit in bytes, or those that
// need the least; 0 is no limit.
func (p *Plan) save(ctx context.Context, in Inputs, limit int64) error {
	least, needs := int64(math.MaxInt64), int64(0)
	for _, in.Savings = range in.savings() {
		if in.savesNothing(needs) {
			continue
		}
		workers, err := in.own(ctx)
		if err != nil {
			return err
		}
		p.recomputes = p.recomputes || in.Savings.Recompute
		needs = most(workers)
		if needs <= least {
			least, p.Savings, p.Workers = needs, in.Savings, workers
		}
		if limit == 0 || needs <= limit {
			break
		}
	}
	return nil
}

// rest is save where matrices may rest on disk. It finds Limit and, if Inputs.Range asks for them, Least and
// All. It fails on all processes if it fails on any. A run that fits without a disk takes none: with one,
// slices of a partition would have copies of its edges.
func (p *Plan) rest(ctx context.Context, in Inputs) error {
	limit := int64(in.MemoryLimit)
	memory := in.with(in.MemoryLimit, "")
	memory.Savings = in.savings()[0]
	workers, all, err := memory.known(ctx)
	if err != nil {
		return err
	}
	if in, err = in.limited(ctx); err != nil {
		return err
	}
	p.Limit = int64(in.MemoryLimit)
	needs := all
	if all <= p.Limit {
		p.InMemory, p.Savings, p.Workers = true, memory.Savings, workers
	} else {
		if err := in.ranks().Together(p.save(ctx, in, limit)); err != nil {
			return err
		}
		if needs, err = in.ranks().Largest(most(p.Workers)); err != nil {
			return err
		}
	}
	exceeds := needs > p.Limit
	if !exceeds && !in.Range {
		return nil
	}
	tight, needs, err := in.tightest(ctx)
	if err != nil {
		return err
	}
	without, needsWithout, err := memory.tightest(ctx)
	if err != nil {
		return err
	}
	inMemory := needsWithout < needs
	if inMemory {
		tight, needs = without, needsWithout
	}
	if exceeds {
		p.Limit, p.Savings, p.InMemory = least, tight.Savings, inMemory
		if p.Workers, _, err = tight.largest(ctx); err != nil {
			return err
		}
	}
	if in.Range {
		p.Least, p.All = needs, all
	}
	return nil
}

// outline is what all processes know of the plans of the workers.
type outline struct {
	First                                           Worker
	Tensors, Graph, DiskBytes, Messages, Parameters []int64 // per worker
}

// together returns the plans of all workers on the first process. On others it returns the first worker's and
// their own, and an outline of the rest.
func together(c *comm.Comm, mine Worker) ([]Worker, error) {
	all, err := worker.ToFirst(c, mine)
	if err != nil {
		return make([]Worker, c.Size()), err
	}
	var o outline
	for rank, w := range all {
		if rank == 0 {
			o.First = w
		}
		o.Tensors, o.Graph = append(o.Tensors, w.Tensors), append(o.Graph, w.Graph)
		o.DiskBytes, o.Messages = append(o.DiskBytes, w.DiskBytes), append(o.Messages, w.Messages)
		o.Parameters = append(o.Parameters, int64(w.Parameters))
	}
	if o, err = worker.FromFirst(c, o); c.Rank() == 0 || err != nil {
		return all, err
	}
	all = []Worker{o.First}
	for rank := 1; rank < c.Size(); rank++ {
		all = append(all, Worker{
			Tensors: o.Tensors[rank], Graph: o.Graph[rank], DiskBytes: o.DiskBytes[rank],
			Messages: o.Messages[rank], Parameters: int(o.Parameters[rank]),
		})
	}
	all[c.Rank()] = mine
	return all, nil
}

// least is a memory limit that no plan keeps: what it takes all the same is the least.
const least = 1

// limited returns the inputs with a memory limit. Where the settings have none it is the least with which
// every worker can run.
func (in Inputs) limited(ctx context.Context) (Inputs, error) {
	unlimited := int64(0)
	if in.MemoryLimit == 0 {
		unlimited = 1
	}
	if some, err := in.ranks().Largest(unlimited); err != nil || some == 0 {
		return in, err
	}
	in.Savings = in.savings()[0]
	_, needs, err := in.with(least, in.Offload).largest(ctx)
	if in.MemoryLimit == 0 {
		in = in.with(setting.Bytes(needs), in.Offload)
	}
	return in, err
}

// tightest returns the inputs with which the workers need the least memory, and how much that is. All rests
// that may, if there is a disk.
func (in Inputs) tightest(ctx context.Context) (tight Inputs, needs int64, err error) {
	needs = math.MaxInt64
	memory := int64(0)
	for _, in.Savings = range in.savings() {
		if in.savesNothing(memory) {
			continue
		}
		resting := in.with(least, in.Offload)
		if _, memory, err = resting.largest(ctx); err != nil {
			return tight, 0, err
		}
		if memory < needs {
			tight, needs = resting, memory
		}
	}
	return tight, needs, nil
}

// with returns the inputs with another memory limit and another folder to offload to.
func (in Inputs) with(limit setting.Bytes, folder string) Inputs {
	settings := *in.Resolved
	settings.MemoryLimit, settings.Offload = limit, folder
	in.Resolved = &settings
	return in
}

// largest plans the workers of this process, and returns the largest memory of a worker of any process, too.
func (in Inputs) largest(ctx context.Context) (workers []Worker, memory int64, err error) {
	workers, err = in.own(ctx)
	if err := in.ranks().Together(err); err != nil {
		return nil, 0, err
	}
	memory, err = in.ranks().Largest(most(workers))
	return workers, memory, err
}

// known is largest of inputs without a disk, whose plan Asks.InMemory may be.
func (in Inputs) known(ctx context.Context) (workers []Worker, memory int64, err error) {
	if in.InMemory != nil {
		return in.InMemory.Workers, most(in.InMemory.Workers), nil
	}
	return in.largest(ctx)
}

// ranks are the processes that plan together.
func (in *Inputs) ranks() launch.Ranks { return launch.Ranks{Comm: in.Comm} }

// Parameters is the number of parameter values of all stages.
func (p *Plan) Parameters(grid mesh.Mesh) (n int) {
	for stage := range grid.Stages {
		n += p.Workers[grid.Rank(mesh.Place{Stage: stage})].Parameters
	}
	return n
}

// Reserves are those of all workers.
func (p *Plan) Reserves() (reserves []turns.Reserve) {
	for i := range p.Workers {
		reserves = append(reserves, p.Workers[i].Reserve)
	}
	return reserves
}

// Disk is what all workers move between memory and disk in an epoch but the first.
func (p *Plan) Disk() (all tensor.Moved) {
	for i := range p.Workers {
		all = all.Plus(p.Workers[i].Disk)
	}
	return all
}

// DiskBytes is what rests on disk of all workers, each at its peak.
func (p *Plan) DiskBytes() (all int64) {
	for i := range p.Workers {
		all += p.Workers[i].DiskBytes
	}
	return all
}

// Less names what would need less memory, on as many workers.
func (p *Plan) Less() string {
	if p.recomputes {
		return "a smaller model"
	}
	return fmt.Sprintf("--recompute %s, a smaller model", setting.RecomputeBlocks)
}

// Resting is Less, with partitions that take turns before it, where the mesh has none that do.
func (p *Plan) Resting() string {
	if p.Stages != nil || p.Rests || p.Turns {
		return p.Less()
	}
	return p.resting("DIR", "on disk") + ", " + p.Less()
}

// resting names the way in which matrices of partitions that are not at work rest somewhere.
func (p *Plan) resting(offload, where string) string {
	return fmt.Sprintf("--partitions %s --offload %s, by which partitions take turns and rest %s", setting.Auto,
		offload, where)
}

// Exceeds is that a worker would need more memory than it may have, in bytes.
type Exceeds struct {
	error
	Need, Room int64
}

func (e Exceeds) Unwrap() error { return e.error }

// Most is the worker that needs most memory, for tensors and the graph, and how much that is.
func (p *Plan) Most() (worker int, bytes int64) {
	for i, tensors := range p.PeakTensorBytes {
		if all := tensors + p.GraphBytes[i]; all > bytes {
			worker, bytes = i, all
		}
	}
	return worker, bytes
}

// CheckLimit refuses a plan in which a worker exceeds the limit, and names the one that needs most. What it
// needs suffices as a limit; 0: none.
func (p *Plan) CheckLimit(limit setting.Bytes) error {
	worker, need := p.Most()
	given := limit
	if p.Card != nil {
		limit = setting.Bytes(p.Card.Bytes)
	}
	if limit == 0 && p.Card == nil || need <= int64(limit) {
		return nil
	}
	needs := setting.Bytes(need).RoundedUp()
	if p.Card != nil {
		at, raise := fmt.Sprintf("--device %s", p.Card.Device), ""
		if given > 0 && p.Card.Bytes < p.Card.Free {
			at = fmt.Sprintf("--memory-limit %s", given)
			if need <= p.Card.Free {
				all := setting.Bytes(need) * (given / limit) // of the workers on a card
				raise = fmt.Sprintf("raise the limit to %s, ", all.RoundedUp())
			}
		}
		try := p.Less()
		if p.halves {
			try = "--precision bf16, " + try
		}
		switch {
		case p.Rests && !p.Turns:
			try = "more --chunks"
		case p.Rests:
			try = "another number of --partitions"
		case p.Turns:
			try = "--offload " + setting.RAM + ", by which matrices rest in the host's memory"
		case p.Stages == nil:
			try = p.resting(setting.RAM, "in the host's memory") + ", " + try
		default:
			try = fmt.Sprintf("--offload %s and --chunk-order %s, by which matrices rest in the host's memory",
				setting.RAM, axis.Fixed)
		}
		return Exceeds{
			refusal.Errorf("%s: worker %d would need %s of the card, and may have %s; %stry %s, or "+
				"--device %s", at, worker, needs, limit.Rounded(), raise, try, setting.CPU), need,
			int64(limit),
		}
	}
	during, try := "", p.Less()+" or more workers"
	switch {
	case p.Rests:
		during, try = " while a partition is at work", "another number of --partitions"
	case p.Turns:
		try = "--offload DIR, by which matrices rest on disk"
	case p.Stages == nil:
		try = p.resting("DIR", "on disk") + ", " + try
	}
	return Exceeds{refusal.Errorf("--memory-limit %s: worker %d would need %s%s (tensors %s, graph %s); "+
		"raise the limit to %s, or try %s", limit, worker, needs, during,
		setting.Bytes(p.PeakTensorBytes[worker]).Rounded(), setting.Bytes(p.GraphBytes[worker]).Rounded(),
		needs, try), need, int64(limit)}
}

// MessageBytes is the host's pinned memory, through which messages of all workers pass.
func (p *Plan) MessageBytes() (all int64) {
	for i := range p.Workers {
		all += p.Workers[i].Messages
	}
	return all
}

// WaitingBytes bounds what messages have of the host's memory below a card while they wait for the turn of
// their partition, of all workers.
func (p *Plan) WaitingBytes() (all int64) {
	for i := range p.Workers {
		if p.Card != nil {
			all += p.Workers[i].Reserve.Bytes
		}
	}
	return all
}

// HostBytes is what rests in the host's memory of the workers on a machine, so many (0: all), with messages
// between workers.
func (p *Plan) HostBytes(here int) (all int64) {
	if p.Card == nil {
		return 0
	}
	all = p.DiskBytes() + p.MessageBytes() + p.WaitingBytes()
	if here > 0 {
		all = all / int64(len(p.Workers)) * int64(here)
	}
	return all
}

// CheckHost refuses a plan of which more rests in a machine's memory than the limit, 0: none; here is as for
// HostBytes.
func (p *Plan) CheckHost(limit setting.Bytes, here int) error {
	if needs := setting.Bytes(p.HostBytes(here)); limit > 0 && needs > limit {
		messages, less := "", ""
		if all := p.MessageBytes() + p.WaitingBytes(); all > 0 {
			messages = fmt.Sprintf(", %d %% of that messages", 100*all/p.HostBytes(0))
		}
		if p.DiskBytes() > 0 {
			less = ", or raise --memory-limit, so that less rests"
		}
		return refusal.Errorf("--host-memory-limit %s: %s would rest in the host's memory%s; raise the limit to that%s",
			limit, needs.RoundedUp(), messages, less)
	}
	return nil
}

// savings lists what the settings allow, the fastest first.
func (in *Inputs) savings() (list []worker.Savings) {
	if in.Saving != nil {
		return []worker.Savings{*in.Saving}
	}
	for _, recompute := range in.Recomputes() {
		list = append(list, worker.Savings{Recompute: recompute},
			worker.Savings{Recompute: recompute, Uncut: true})
	}
	return list
}

// savesNothing reports whether the plan would be the one before it in savings, of which workers need so many
// bytes at most: too few for a matrix that is tiled. A card tiles none.
func (in *Inputs) savesNothing(needed int64) bool {
	return in.Savings.Uncut && (needed < kernel.TiledFrom || in.Card != nil)
}

// most is the largest memory of a worker, for tensors and graph.
func most(workers []Worker) (bytes int64) {
	for _, w := range workers {
		bytes = max(bytes, w.Tensors+w.Graph)
	}
	return bytes
}

// own plans for the workers of this process, one after the other.
func (in *Inputs) own(ctx context.Context) ([]Worker, error) {
	if in.Comm.Size() > 1 {
		mine, err := in.worker(ctx, in.Comm.Rank())
		return []Worker{mine}, err
	}
	first, err := in.worker(ctx, 0)
	if err != nil {
		return nil, err
	}
	by, err := in.represent(&first)
	if err != nil {
		return nil, err
	}
	planned := 0
	for number, of := range by {
		if number == of {
			planned++
		}
	}
	if steps := planned * first.Counts.Steps(); in.MostSteps > 0 && steps > in.MostSteps {
		return nil, TooManySteps(steps, in.MostSteps)
	}
	workers := make([]Worker, in.Workers)
	workers[0] = first
	for number, of := range by {
		if number == of && number > 0 {
			if workers[number], err = in.worker(ctx, number); err != nil {
				return nil, err
			}
		}
	}
	for number, of := range by {
		workers[number].Like = of
	}
	copyPlanned(workers)
	in.setLinks(workers)
	return workers, nil
}

// setLinks sets what workers that others represent send of embeddings: it depends on their own edges.
func (in *Inputs) setLinks(workers []Worker) {
	if !in.Fetches.Known() || in.TakesTurns() {
		return
	}
	for number := range workers {
		if w := &workers[number]; w.Like != number {
			sent := in.Fetches.Sent(number)
			w.Sent.Links, w.Counts.Traffic[comm.Links] = worker.Traffic(sent), sent
		}
	}
}

// TooManySteps refuses a plan of so many steps, where fewer are left.
func TooManySteps(steps, left int) error {
	return refusal.Errorf("an epoch has about %d kernel calls and starts and ends of messages, and "+
		"%d are left of those that are planned for all meshes; take fewer workers or chunks", steps, left)
}

// worker plans a worker.
func (in *Inputs) worker(ctx context.Context, number int) (one Worker, err error) {
	if in.TakesTurns() {
		one, err = in.inTurns(ctx, number)
	} else {
		mem := in.meter()
		defer mem.Close()
		if in.Offload != "" {
			mem.Offload(nil, int64(in.MemoryLimit))
		}
		one, err = in.rank(ctx, comm.New(comm.Plan(ctx, number, in.Mesh.Workers()), 0), mem)
	}
	if err != nil {
		return one, cmp.Or(context.Cause(ctx), err) // a message of the plan may say the cause
	}
	one.Like = number
	return one, nil
}

// meter makes the memory of a worker that plans.
func (in *Inputs) meter() *tensor.Meter {
	mem := tensor.NewMeter()
	mem.Plan()
	if in.Card != nil {
		_ = mem.On(nil, in.Card.Bytes) // asks no card for memory
		mem.LargerMessages(in.Asks.LargerBy)
		if in.DeviceMessages {
			mem.DirectMessages()
		}
	}
	return mem
}

// inTurns plans a worker that holds several ranks.
//
// Messages between workers come and go at any time, beside what the plan takes. All may be there at a time.
// Where matrices rest, and a worker has no room for all, messages rest too: they are in memory while a rank
// sends one, while a link copies one each way, and while the rank at work receives one or reads others ahead.
// Small ones stay, unless a schedule says how much is sent in an epoch: the memory of its last one, which is
// planned, is then enough for all.
func (in *Inputs) inTurns(ctx context.Context, number int) (all Worker, err error) {
	all, host, err := in.within(ctx, number, turns.Reserve{})
	queued, stay, rest := host.Queued()
	if queued == 0 || err != nil {
		return all, err
	}
	if in.Offload == "" {
		all.Tensors += queued
		return all, nil
	}
	reserves := []turns.Reserve{{Bytes: queued}}
	atOnce := 2*(in.Workers-1) + in.Prefetch + 2
	if less := stay + int64(atOnce)*host.Largest(); less < queued && in.Offload != setting.RAM {
		reserves = append(reserves, turns.Reserve{Bytes: less, Rests: true})
	}
	for _, reserve := range reserves {
		all, _, err = in.within(ctx, number, reserve)
		if reserve.Rests {
			all.DiskBytes += rest
		}
		if err != nil || all.Tensors+all.Graph <= int64(in.MemoryLimit) {
			break
		}
	}
	return all, err
}

// within plans a worker that holds several ranks, with memory reserved for messages of others where matrices
// may rest.
func (in *Inputs) within(ctx context.Context, number int,
	reserve turns.Reserve,
) (all Worker, host *comm.Host, err error) {
	mem := in.meter()
	holders := in.Holders()
	defer mem.Close()
	spool := &turns.Spool{
		Memory: mem, Reserve: reserve,
		Small: in.WireSchedule != (axis.WireSchedule{}), Plan: true,
	}
	host = comm.PlanHost(number, holders, spool)
	if in.Offload != "" {
		spool.Offload(host, nil, nil, int64(in.MemoryLimit))
	}
	ranks := make([]Worker, len(holders))
	err = launch.Hosts([]*comm.Host{host}, 0, func(c *comm.Comm) (err error) {
		mine := mem.Another()
		defer mine.Close()
		if ranks[c.Rank()], err = in.rank(ctx, c, mine); err == nil {
			c.LocalBarrier() // others may be reading of this one's memory
		}
		return err
	})
	first := in.First(number)
	all = ranks[first]
	for rank, worker := range holders {
		if worker == number && rank > first {
			all.add(&ranks[rank])
		}
	}
	all.Reserve = reserve
	return all, host, err
}

// add adds a rank that the same worker holds: their memory is that of the worker already.
func (p *Worker) add(rank *Worker) {
	p.Tensors, p.Graph = max(p.Tensors, rank.Tensors), max(p.Graph, rank.Graph)
	p.Sent = worker.SumOf([]worker.Communication{p.Sent, rank.Sent})
	p.EdgeColumns, p.LayoutBytes = p.EdgeColumns.Plus(rank.EdgeColumns), p.LayoutBytes.Plus(rank.LayoutBytes)
	p.Bytes = sumOf(p.Bytes, rank.Bytes)
	p.Checkpoint += rank.Checkpoint
	p.Counts.add(&rank.Counts)
	p.Disk = p.Disk.Plus(rank.Disk)
	p.DiskBytes, p.Messages = max(p.DiskBytes, rank.DiskBytes), max(p.Messages, rank.Messages)
}

// sumOf returns the sums of two workers' bytes.
func sumOf(some, more []LayerBytes) []LayerBytes {
	sum := slices.Clone(some)
	for k, b := range more {
		sum[k] = sum[k].Plus(b)
	}
	return sum
}

// Bytes are those of the kernels of all workers, as Worker.Bytes.
func (p *Plan) Bytes() []LayerBytes {
	all := p.Workers[0].Bytes
	for i := range p.Workers[1:] {
		all = sumOf(all, p.Workers[i+1].Bytes)
	}
	return all
}

// rank plans the rank of world, in memory.
func (in *Inputs) rank(ctx context.Context, world *comm.Comm, mem *tensor.Meter) (p Worker, err error) {
	number := in.Mesh.Place(world.Rank()).Partition
	err = in.Open(number, func(share *partition.Share) error {
		return in.Validation(number, func(other *worker.Validation) error {
			p, err = in.ofShare(ctx, world, mem, share, other)
			return err
		})
	})
	return p, err
}

// ofShare plans the rank that has a share.
func (in *Inputs) ofShare(ctx context.Context, world *comm.Comm, mem *tensor.Meter, share *partition.Share,
	other *worker.Validation,
) (p Worker, err error) {
	newPlan := kernel.NewPlan
	if in.Card != nil {
		newPlan = kernel.NewDevicePlan
	}
	team := newPlan(in.Threads, mem)
	c := in.Config
	c.AnyOrder, c.LargerBy = true, in.Asks.LargerBy
	counter := &counter{kernels: Kernels{}, bytes: make([]LayerBytes, 1)}
	team.Watch, c.OnLayer = counter.watch, counter.onLayer
	c.Explain = func(module, what string) { p.Layers = append(p.Layers, Layer{module, what}) }
	var w *worker.Worker
	var run func() error
	if in.Loop != nil {
		loop, err := worker.NewPasses(c, team, world, share)
		if err != nil {
			return p, err
		}
		w, run = loop.Worker, func() error { return in.dryLoop(ctx, loop, counter, &p) }
	} else {
		if w, err = worker.New(c, team, world, share, other); err != nil {
			return p, err
		}
		run = func() error { return in.dryRun(ctx, w, counter, &p) }
	}
	if err := run(); err != nil {
		return p, err
	}
	p.measure(w)
	p.describe(w, share)
	return p, nil
}

// dryLoop runs a loop until all its steps are alike. It sets the parts of p that single passes tell.
func (in *Inputs) dryLoop(ctx context.Context, w *worker.Passes, counter *counter, p *Worker) error {
	steps := 2
	switch {
	case w.Offload != "":
		steps = 4
	case w.Mesh.Stages > 1:
		steps = 3
	}
	for step := range steps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		first := step * in.Loop.Passes
		for pass := range in.Loop.Passes {
			counter.begin(w.Worker)
			if err := w.Forward(worker.Forward{
				Pass: first + pass, Changed: pass == 0, Training: true, Recording: true,
				Features: in.Loop.Features, Edges: in.Loop.Edges,
			}); err != nil {
				return err
			}
		}
		for pass := in.Loop.Passes - 1; pass >= 0; pass-- {
			if err := w.Backward(worker.Backward{Pass: first + pass}); err != nil {
				return err
			}
			if pass == in.Loop.Passes-1 {
				p.Bytes = counter.bytes
			}
		}
		p.Disk = w.Pass.Disk
	}
	p.Resting = w.LiveBytes()
	return nil
}

// dryRun trains for the fewest epochs after which all are alike, evaluates after each, and reports, as a run
// does. It sets the parts of p that single epochs tell.
func (in *Inputs) dryRun(ctx context.Context, w *worker.Worker, counter *counter, p *Worker) error {
	var (
		best     nn.Snapshot
		snapshot checkpoint.Snapshot
	)
	arrays := func() []checkpoint.Array { return w.Mine(append(w.Arrays(), w.Params.ArraysOf(&best)...)) }
	allocate := func() {
		if in.Checkpoints && w.CheckpointEvery != (setting.Interval{}) {
			p.Checkpoint = checkpoint.Size(arrays())
			if w.Offload == "" { // else all is in memory now, and is written
				snapshot.Allocate(w.Team.Memory, p.Checkpoint)
			}
		}
	}
	if in.Checkpoints || w.Reads() {
		w.Params.Save(&best)
	}
	if in.Checkpoints && w.Offload == "" {
		allocate()
	}
	epochs := 2
	switch {
	case w.Offload != "": // what leaves for the first time in the second epoch is written in the third
		epochs = min(4, w.Epochs)
	case w.Mesh.Stages > 1: // the second epoch knows what the chunks keep
		epochs = 3
	}
	w.Begin()
	done := 0 // epochs of the run for which others stand
	saves := saves{writes: in.Checkpoints && w.Offload != ""}
	for epoch := range epochs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		number := 1 + epoch
		if w.WireSchedule != (axis.WireSchedule{}) || w.Fetches.Known() {
			number = w.Epochs // which sends most, or whose fetches they are
		}
		counter.begin(w)
		var read func(worker.Scores) bool
		if w.Reads() && epoch > 0 {
			read = func(worker.Scores) bool { return false }
		}
		if _, _, err := w.TrainEpoch(number, read, nil); err != nil {
			return err
		}
		p.Disk = w.Pass.Disk
		if epoch == epochs-1 {
			p.Bytes = counter.bytes
			counter.bytes = make([]LayerBytes, len(p.Bytes)) // of the evaluation
			if in.Counts {
				p.Counts = counter.end(w, w.Share)
			}
		}
		// each stands for an epoch at the end of the run, and the first for all before these, too
		last, until := epoch == epochs-1, w.Epochs-epochs+1+epoch
		evaluated := last || w.EvaluatesWithin(done, until) || w.Offload == "" && !w.Reads()
		since := done
		done = until
		if evaluated {
			if _, err := w.Evaluate(); err != nil { // it may take more than a training pass
				return err
			}
		}
		if evaluated || w.Reads() {
			w.Params.Save(&best)
		}
		if w.Offload == "" || last {
			allocate()
		}
		if err := saves.after(w, since, until, arrays); err != nil {
			return err
		}
	}
	best.Release()
	snapshot.Release()
	w.Optimizer.Release()
	output := w.Infer(0)
	if _, err := w.Task.Report(output.Value()); err != nil {
		return err
	}
	output.Drop()
	return nil
}

// saves are the checkpoints of a run whose matrices rest: what a checkpoint reads comes to memory, and others
// leave for it. Checkpoints at times are left out, as nobody knows after which epochs they come.
type saves struct {
	writes  bool
	written bool // a checkpoint, which the end of the next epoch makes whole
}

// after plans what a run does at the end of the epochs after one and up to another, which one stands for.
func (s *saves) after(w *worker.Worker, since, until int, arrays func() []checkpoint.Array) error {
	if s.written {
		s.written = false
		if _, err := comm.ToFirst(w.Groups.World, []byte{0}); err != nil {
			return err
		}
		if err := w.Groups.World.Broadcast(comm.Setup, []byte{0}, 0); err != nil {
			return err
		}
		if err := w.Ranks().Together(nil); err != nil {
			return err
		}
	}
	every := w.CheckpointEvery.Epochs
	if !s.writes || every == 0 || until/every == since/every {
		return nil
	}
	s.written = true
	if err := w.Settle(); err != nil {
		return err
	}
	if err := w.Groups.World.SumInts([]int64{0}); err != nil {
		return err
	}
	if w.Offload == setting.RAM {
		checkpoint.Copies(arrays())
	} else {
		checkpoint.Elements(arrays())
	}
	return nil
}

// measure sets what the dry run has sent, moved and allocated.
func (p *Worker) measure(w *worker.Worker) {
	p.Sent, p.EdgeColumns, p.LayoutBytes = w.Pass.Sent, w.Pass.EdgeColumns, w.Pass.LayoutBytes
	if !w.Fetches.Known() {
		p.Sent.Links = worker.Traffic{} // it knows no negative edges
	}
	if w.TakesTurns() { // and does not sum these
		p.Sent.Gradient, p.Sent.Statistics = worker.Traffic{}, worker.Traffic{}
	}
	mem := w.Team.Memory
	p.Tensors, p.Graph, p.DiskBytes, p.Parameters = mem.Peak(), mem.GraphBytes(),
		mem.DiskBytes(), w.Params.Count()
	use := mem.DeviceUse()
	p.OnCPU, p.Messages = use.OnCPU, use.StagedBytes
	for k := tensor.Features; k < tensor.Graph; k++ {
		p.Kinds = append(p.Kinds, mem.PeakOf(k))
	}
}

// describe sets what follows from the worker's model, its share and its stage.
func (p *Worker) describe(w *worker.Worker, share *partition.Share) {
	whole := &share.Whole
	p.Predictions = whole.Vertices * w.Outputs
	if slices.ContainsFunc(w.Blocks, func(b gnn.BlockSpec) bool { return b.Cost != gnn.Cost{} }) {
		p.Costs = gnn.Costs(w.Blocks, whole.Vertices, whole.Edges)
	}
	if w.Groups.Common != nil {
		p.Common = w.Groups.Common.Size()
	}
	p.Stages = w.Stages()
	p.Chunks = chunks(w)
	p.widths = widths(w)
	if w.Task != nil { // else the caller's loss measures
		p.Validates, p.OneClass = w.Validates(), w.Task.OneClass()
	}
	weighted := func(r partition.Relation) bool { return r.In.Weights != nil }
	if !gnn.ReadEdgeFeatures(w.Blocks) {
		for i := range share.Edges.Relations {
			p.UnusedEdgeFeatures = max(p.UnusedEdgeFeatures, share.Edges.Relations[i].In.EdgeColumns)
		}
	}
	p.UnusedWeights = w.OwnModel == nil && !w.ReadsWeights() &&
		slices.ContainsFunc(share.Edges.Relations, weighted)
	for i := range share.Edges.Relations {
		if name := share.Edges.Relations[i].Name; !gnn.ReadRelation(w.Blocks, name) {
			p.UnusedRelations = append(p.UnusedRelations, name)
		}
	}
	if w.NormalizeFeatures == "row" {
		p.RowSums = rowSums(&share.Types[0].Features, share.Types[0].Rows)
	}
	p.Scales = differing(w, share)
}

// chunks describes the chunks of a worker's pipeline.
func chunks(w *worker.Worker) (c Chunks) {
	s, edges := &w.Stage, &w.Share.Edges
	if w.Mesh.Stages == 1 {
		return c
	}
	starts := edges.Types[0].Starts
	own := s.Of[starts[edges.P]:starts[edges.P+1]]
	rows := make([]int, s.Count)
	for _, c := range own {
		rows[c]++
	}
	c.Least, c.Most = slices.Min(rows), slices.Max(rows)
	c.Each, c.Wanted = w.ChunksOfPartition(starts)
	c.Cut, c.Edges = edges.ChunkCut(own)
	for _, at := range s.Cuts[1:w.Mesh.Stages] {
		c.Columns += w.Blocks[at].In + w.Blocks[at].H0
	}
	const directions, float = 2, 4
	c.Bytes = directions * float * int64(c.Columns) * int64(w.Share.Whole.Vertices)
	return c
}

func rowSums(f *graph.Features, vertices int) (r RowSums) {
	const rows, tolerance = 4096, 1e-4
	for v := 0; v < vertices; v += 1 + vertices/rows {
		sum, zero := 0.0, true
		for _, x := range f.Row(v) {
			sum, zero = sum+float64(x), zero && x == 0
			if x < 0 {
				r.Negative = x
			} else if x != float32(math.Trunc(float64(x))) {
				r.Fraction = x
			}
		}
		if math.Abs(sum-1) < tolerance {
			r.Ones++
		} else if !zero {
			r.Others++
		}
	}
	return r
}
