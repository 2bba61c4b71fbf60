// Package plan computes what a run would take, before any work. Each worker runs an epoch and an evaluation
// with kernels that do nothing. It allocates the same matrices, but touches no page of them. A plan is
// numbers; command weft puts them into words. Package train makes one before each run, package planner one
// for each mesh that it compares.
package plan

import (
	"context"
	"errors"
	"math"

	"weft/comm"
	"weft/comm/launch"
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
	// Sent is what each worker sends in a training pass after the first; with a wire schedule, in the last.
	Sent []worker.Communication
	// EdgeColumns are each worker's aggregated edges × columns in such a pass.
	EdgeColumns []int64
	Stages      []worker.Stage // if the mesh has several
	// The savings of the settings, with those that the memory limit needs.
	worker.Savings
	// EdgeStates are the states of edges that a program keeps, by the settings or by the room in the memory
	// limit.
	EdgeStates setting.EdgeStates
	// ResultBytes is the size of weights and predictions, without learned tables.
	ResultBytes int64
	// Workers are the plans of all workers. If several processes plan, only the first process knows all of
	// every plan. The others know all of the first worker's plan and of their own. Of the rest they know
	// memory, disk and parameters.
	Workers []Worker
	// Rests says that matrices may rest on disk if memory would exceed Limit. Limit is the memory limit or,
	// without one, the least with which the workers can run. Least is the memory that a worker needs at
	// least, and All is the memory with which nothing rests. Both are 0 unless Asks.Range is set.
	Rests             bool
	Limit, Least, All int64
	// InMemory says that nothing rests, because all fits in memory: the run takes no disk.
	InMemory bool
	Turns    bool          // partitions of a worker take turns
	Cards    *worker.Cards // the cards on which the workers compute; nil: the CPU
	OnCPU    worker.OnCPU  // the kernels that no card has, without bytes
	AtMost   bool          // Disk is an upper bound, because of link prediction's messages between workers
	Advice   Advice        // what a refusal advises

	recomputes bool // some of what was planned computes values again
	fewer      bool // the settings say which states of edges are kept, and fewer could be kept
	halves     bool // in bfloat16 values of vertices would take half as much
}

// Worker is the plan of one worker. Its numbers of the graph are its partition's.
type Worker struct {
	Tensors, Graph int64   // bytes at the peak
	Resting        int64   // bytes of tensors and graph between the passes of a Loop, while no pass lives
	Kinds          []int64 // bytes at the peak of Tensors, by tensor.Kind, without Graph
	Rows           []int   `json:"-"` // rows of inputs and outputs of a Loop, by vertex type
	Edges          []int   `json:"-"` // edges of inputs and outputs of a Loop, by relation
	// Sent is what the worker sends in a training pass but the first; without Gradient and Statistics if
	// partitions take turns.
	Sent   worker.Communication
	Counts Counts       `json:"-"` // of such a pass, if Asks.Counts is set, on the process that planned it
	Disk   tensor.Moved // bytes moved in such an epoch, with the evaluation before it
	// DiskBytes are the bytes at the peak that rest on disk or in the host's memory. With messages of other
	// workers they are an upper bound.
	DiskBytes   int64
	Messages    int64            // bytes of the host's pinned memory, through which a card's messages pass
	Reserve     turns.Reserve    // for messages between workers, where matrices may rest
	OnCPU       map[string]int64 // the kernels that no card has
	EdgeColumns worker.ByLayer   // aggregated edges × columns in such a pass
	LayoutBytes worker.ByLayer   // bytes sent in all-to-alls between layouts in such a pass
	// Work is the work of kernels in such a pass, by block of the model. The last entry is outside all
	// blocks, as the loss is.
	Work        []LayerWork
	Common      int // how many workers, with this one, share its edges; 0: none do
	Parameters  int // values of the parameters of its stage
	Predictions int // values of the predictions of all workers
	// Checkpoint is the bytes of its part of a checkpoint, and of the snapshot in memory; 0: there are none.
	Checkpoint int64
	// Costs are the multiply-adds of each block of the whole model in a forward pass; nil: unknown.
	Costs  []float64
	Layers []Layer // in the order of their first forward pass
	Stages []worker.Stage
	Chunks Chunks
	// Validates says that there are validation vertices or edges. OneClass says that there is one class only,
	// so nothing to learn. UnusedWeights says that the model ignores the weights of the edges.
	Validates, OneClass, UnusedWeights bool
	// OwnPass names what an evaluation needs a pass of its own for, as worker.Worker.OwnPass.
	OwnPass            string
	UnusedEdgeFeatures int      // columns of the edges' features that the model ignores
	UnusedRelations    []string // relations along which no layer aggregates
	Reading            Reading
	RowSums            RowSums // set if features are divided by their sums
	// Scales are columns whose scales make learning hard; nil: there are none, or the worker is not the
	// first.
	Scales *Scales
	// LargeEdges is the largest column of edge features, if it makes learning hard because messages read it
	// as it is; nil as above.
	LargeEdges *EdgeSize
	// Like is the number of the worker that was planned in its place. Mostly it is its own number.
	Like int `json:"-"`

	widths []int // widths of the columns that slices divide
}

// Layer describes in words what a layer of the model does.
type Layer struct{ Name, What string }

// Chunks describe a worker's chunks in a pipeline. They are zero without one.
type Chunks struct {
	Each, Wanted int   // chunks of each partition: as they are, and if the smallest were larger
	Least, Most  int   // rows of the smallest and the largest chunk of the worker's partition
	Cut, Edges   int64 // edges of that partition: between two chunks, and all
	// Columns are sent at the stage boundaries for each vertex, and EdgeColumns for each edge. Bytes is what
	// all of them take, forward and backward.
	Columns, EdgeColumns int
	Bytes                int64
}

// RowSums describe the sums of a sample of a share's feature rows.
type RowSums struct {
	Negative, Fraction float32 // a negative value and a fraction among them; 0: none
	Ones, Others       int     // rows with the sum 1, and rows with another sum but 0
}

// Inputs are the inputs of a plan.
type Inputs struct {
	worker.Config
	// Comm connects this process, which is one worker, to the others. If it is alone, this process runs all
	// workers.
	Comm    *comm.Comm
	Threads int // of each worker
	// Open opens the share of a partition for use.
	Open func(partition int, use func(*partition.Share) error) error
	// Validation opens, as Open does, the graph on which the model is validated; nil: it is the same graph.
	Validation func(partition int, use func(*worker.Validation) error) error
	Asks
	// Checkpoints says that the run may continue from a checkpoint, or write checkpoints from a snapshot in
	// memory.
	Checkpoints bool
}

// Asks say what a plan computes in addition, and what it may leave out.
type Asks struct {
	// Range asks for Plan.Least and Plan.All, which takes two more plans, and for Sent.Links.
	Range bool
	// Counts asks for Worker.Counts, and for Sent.Links of the last epoch, which takes a pass over the edges.
	Counts bool
	// MostSteps refuses a plan whose workers would have more steps together than this, if each has as many as
	// the first; 0: no limit.
	MostSteps int
	// Alike says that all partitions are like the first one, and that chunks are consecutive rows. The first
	// partition is opened in place of the others, and its workers stand for theirs.
	Alike bool
	// Most asks to plan about so many workers, if there are more: each stands for the workers like it; 0: all
	// are planned.
	Most int
	// LargerBy is LargerBy of axis.Env.
	LargerBy float64
	// Loop is a caller's loop, in place of a run's epochs; nil: epochs. Numbers of an epoch are then numbers
	// of a pass.
	Loop *Loop
	// Saving fixes the savings; nil: the first that meet the memory limit.
	Saving *worker.Savings
	// InMemory is the plan of the same inputs without a memory limit, where nothing rests. nil: it is made if
	// matrices may rest. With several processes it is nil.
	InMemory *Plan
}

// Loop is the training loop of a caller, who asks for passes (worker.Passes).
type Loop struct {
	Passes int // how many passes live at a time, each with the parameters of the others
	// Features and Edges are what each pass is given, as in worker.Forward. A plan reads only whether there
	// are values: passes keep all edges.
	Features []worker.InputValues
	Edges    []worker.EdgeValues
}

// links reports whether Sent.Links are asked for.
func (a Asks) links() bool { return a.Range || a.Counts }

// Of makes a plan for the mesh of the settings. It takes the first states of edges and savings that meet the
// memory limit. If none do, it takes those that need the least memory. All processes call it together; if it
// fails on one, it fails on all. If ctx is cancelled it returns the cause.
func Of(ctx context.Context, in Inputs) (p Plan, err error) {
	if in.Fetches, err = in.fetches(); err != nil {
		return Plan{}, err
	}
	states, least := in.EdgeStates(), int64(math.MaxInt64)
	fewer := in.KeepEdgeStates > 0 && in.Mesh.Stages == 1 // a pipeline keeps all unless it is told
	for _, kept := range states {
		in.Resolved = in.Keeping(kept)
		candidate, err := in.keeping(ctx)
		if err != nil {
			return Plan{}, err
		}
		candidate.fewer = fewer
		if _, needs := candidate.Most(); needs < least {
			p, least = candidate, needs
		}
		if len(states) == 1 {
			break
		}
		exceeds := int64(0)
		if candidate.CheckLimit(in.MemoryLimit) != nil {
			exceeds = 1
		}
		if exceeds, err = in.ranks().Largest(exceeds); err != nil {
			return Plan{}, err
		}
		if exceeds == 0 {
			return candidate, nil
		}
	}
	return p, nil
}

// keeping is Of for settings that say which states of edges are kept.
func (in Inputs) keeping(ctx context.Context) (p Plan, err error) {
	p.EdgeStates = in.KeepEdgeStates
	p.Turns, p.Rests, p.Cards, p.OnCPU = in.TakesTurns(), in.Offload != "", in.Cards, worker.OnCPU{}
	p.halves = in.Storage != tensor.BFloat16
	if in.Loop != nil {
		p.Advice = MorePartitions
	}
	p.AtMost = p.Turns && in.Workers > 1 && in.Task == task.Link && !in.Fetches.Known()
	if p.Rests {
		if p.Cards != nil {
			in = in.with(setting.Bytes(p.Cards.Bytes), in.Offload)
		}
		if err := p.rest(ctx, in); err != nil {
			return Plan{}, err
		}
	} else {
		limit := int64(in.MemoryLimit)
		if p.Cards != nil {
			limit = p.Cards.Bytes
		}
		err = p.save(ctx, in, limit)
	}
	if in.Comm.Size() > 1 {
		if err != nil { // the others wait for this process
			p.Workers = []Worker{{}}
		}
		all, broken := gatherPlans(in.Comm, p.Workers[0])
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

// outline is the part of all workers' plans that every process knows.
type outline struct {
	First                                           Worker
	Tensors, Graph, DiskBytes, Messages, Parameters []int64 // per worker
}

// gatherPlans returns the plans of all workers on the first process. Other processes get the first worker's
// plan, their own plan, and an outline of the others.
func gatherPlans(c *comm.Comm, local Worker) ([]Worker, error) {
	all, err := worker.ToFirst(c, local)
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
	all[c.Rank()] = local
	return all, nil
}

// ranks are the processes that plan together.
func (in *Inputs) ranks() launch.Ranks { return launch.Ranks{Comm: in.Comm} }

// Parameters is the number of parameter values of all stages.
func (p *Plan) Parameters(grid mesh.Mesh) (n int) {
	for stage := range grid.Stages {
		n += p.Workers[grid.Rank(mesh.Coords{Stage: stage})].Parameters
	}
	return n
}

// Reserves are the reserves of all workers.
func (p *Plan) Reserves() (reserves []turns.Reserve) {
	for i := range p.Workers {
		reserves = append(reserves, p.Workers[i].Reserve)
	}
	return reserves
}

// Disk is what all workers together move between memory and disk, in any epoch but the first.
func (p *Plan) Disk() (all tensor.Moved) {
	for i := range p.Workers {
		all = all.Plus(p.Workers[i].Disk)
	}
	return all
}

// DiskBytes are the bytes of all workers that rest on disk, each worker at its peak.
func (p *Plan) DiskBytes() (all int64) {
	for i := range p.Workers {
		all += p.Workers[i].DiskBytes
	}
	return all
}

// MessageBytes are the bytes of the host's pinned memory through which messages of all workers pass.
func (p *Plan) MessageBytes() (all int64) {
	for i := range p.Workers {
		all += p.Workers[i].Messages
	}
	return all
}

// WaitingBytes bounds the host's memory of messages that wait until their partition has its turn on a card,
// for all workers together.
func (p *Plan) WaitingBytes() (all int64) {
	for i := range p.Workers {
		if p.Cards != nil {
			all += p.Workers[i].Reserve.Bytes
		}
	}
	return all
}

// HostBytes are the bytes that rest in the host's memory of one machine, with the messages between workers.
// here is the number of workers on the machine; 0: all.
func (p *Plan) HostBytes(here int) (all int64) {
	if p.Cards == nil {
		return 0
	}
	all = p.DiskBytes() + p.MessageBytes() + p.WaitingBytes()
	if here > 0 {
		all = all / int64(len(p.Workers)) * int64(here)
	}
	return all
}

// Work is the sum of Worker.Work over all workers.
func (p *Plan) Work() []LayerWork {
	all := p.Workers[0].Work
	for i := range p.Workers[1:] {
		all = sumOf(all, p.Workers[i+1].Work)
	}
	return all
}
