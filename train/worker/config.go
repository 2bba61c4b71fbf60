package worker

import (
	"fmt"
	"strconv"
	"strings"

	"weft/gnn"
	"weft/internal/trace"
	"weft/nn"
	"weft/parallel/links"
	"weft/partition"
	"weft/train/engine"
	"weft/train/setting"
)

// Config is the settings of a worker. All workers of a run have the same, but for Recorder, Explain and
// OnLayer.
type Config struct {
	*setting.Resolved
	Outputs int // columns of the last layer
	// OwnModel describes a model of the caller's own, instead of the one that the settings name. It may be
	// nil.
	OwnModel func(features, outputs int) []gnn.BlockSpec
	// OwnLoss is a loss of the caller's own, instead of the one that the settings name. It may be nil.
	OwnLoss nn.LossFunc
	// Engine makes a worker's engine, in place of engine.New. It may be nil.
	Engine func(engine.Config) (engine.Engine, error)
	// Passing is the graph of the edges that pass messages in the task; nil: all edges. Later is the graph
	// over which the edges are scored that task.Later names; nil: there are none.
	Passing, Later *partition.Subgraph
	// ChunkOf is the chunk of each vertex, in the order of the partitions, if the mesh has several stages.
	ChunkOf []int32
	// Processes says that each worker is a process, perhaps on several machines, and not a goroutine of one
	// process.
	Processes bool
	// Machines has the number of each worker's machine. nil: goroutines are on one machine, and each process
	// on its own, as far as is known.
	Machines []int
	// Vertices are the vertices of each type to infer, each once, in any order, as engine.NewMFG has them.
	// nil is all.
	Vertices [][]int32
	// Loaded is the model of an inference for Vertices, with its weights. nil: the worker makes its own.
	Loaded  *engine.Loaded
	Savings Savings
	// Cards are the cards on which the workers compute; nil: the CPU.
	Cards *Cards
	// Standard says how the columns of dense features are standardised, by the number of the vertex type.
	// nil: by the means and deviations of the graph, if the settings ask for it.
	Standard []*engine.Standard
	// Started are the means and deviations that came with the initial weights, by vertex type. A nil entry
	// stands for those of the graph, and so does nil.
	Started []*engine.Standard
	// Fetches are the rows that workers fetch, as a plan has them from task.Fetches. nil: a run.
	Fetches *links.Fetches
	// AnyOrder has the plan of a pipeline take as much memory as the order of the chunks that needs most.
	AnyOrder bool
	// LargerBy is as in axis.Env.
	LargerBy float64
	// Recorder records what the worker does in an epoch. It may be nil.
	Recorder *trace.Recorder
	// Explain is called for each module of the model with what it does. It may be nil.
	Explain func(module, what string)
	// OnLayer is told of each layer before work of it is done, and of trace.NoLayer after it. It may be nil.
	OnLayer func(layer int, part trace.Part)
}

// Savings are what a worker does to take less memory, at the price of time. The results have the same bits.
// Workers may differ in it.
type Savings struct {
	Untiled   bool // products are not cut into tiles (kernel.Team.Untiled)
	Recompute bool // the backward pass computes values again (engine.Config.Recompute)
}

// Cards is the cards that the workers of a run compute on.
type Cards struct {
	Device  setting.Device
	Name    string // the cards' name; several names if there are several kinds
	Driver  string // the driver's version of CUDA
	Bytes   int64  // how much of a card's memory each worker has
	Free    int64  // how much more than Bytes it could have with a higher limit
	Numbers []int  // by worker: its card's number on its machine; nil in a plan for cards that need not exist
}

// String is the name and, with several workers, the cards on which they are.
func (c *Cards) String() string {
	if len(c.Numbers) < 2 {
		return c.Name
	}
	var numbers []int
	workers := map[int][]string{}
	for worker, number := range c.Numbers {
		if workers[number] == nil {
			numbers = append(numbers, number)
		}
		workers[number] = append(workers[number], strconv.Itoa(worker))
	}
	list := make([]string, len(numbers))
	for k, number := range numbers {
		list[k] = fmt.Sprintf("%s on cuda:%d", strings.Join(workers[number], ", "), number)
	}
	return fmt.Sprintf("%s (workers %s)", c.Name, strings.Join(list, "; "))
}
