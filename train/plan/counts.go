package plan

import (
	"cmp"
	"fmt"
	"sync"

	"weft/comm"
	"weft/internal/trace"
	"weft/kernel"
	"weft/kernel/machine"
	"weft/partition"
	"weft/train/worker"
)

// Counts are the numbers from which the time of a worker's training pass follows.
type Counts struct {
	Kernels Kernels
	Traffic [comm.Kinds]comm.Traffic // that the worker sends
	Rows    int                      // of its partition
	Edges   int64                    // into these rows
	Remote  int64                    // of the edges, how many lead from rows of other partitions
}

// Steps is the number of kernel calls, and of starts and ends of messages. About as many messages come as are
// sent.
func (c *Counts) Steps() (steps int) {
	for _, calls := range c.Kernels {
		steps += calls.Number
	}
	const ends = 4 // starts and ends, of sends and receives
	for _, sent := range c.Traffic {
		steps += ends * int(sent.Messages)
	}
	return steps
}

// add adds the counts of another rank of the same worker.
func (c *Counts) add(rank *Counts) {
	c.Rows, c.Edges, c.Remote = c.Rows+rank.Rows, c.Edges+rank.Edges, c.Remote+rank.Remote
	for k, calls := range rank.Kernels {
		c.Kernels[k] = c.Kernels[k].Plus(calls)
	}
	for k, sent := range rank.Traffic {
		c.Traffic[k].Bytes += sent.Bytes
		c.Traffic[k].Messages += sent.Messages
	}
}

// Kernels are kernel calls.
type Kernels map[Kernel]Calls

// Kernel is a kernel and its widths. Each unit of its work takes about as long.
type Kernel struct {
	Name   string
	Widths [2]int // the elements of a row, or the columns and rows of a weight
}

// Calls are the calls of a kernel. Their work is about the number of elements that they read: the widths for
// each row and edge.
type Calls struct {
	Number            int
	Work              float64
	Bytes, Operations float64 // bytes that stream or are gathered; operations of products
}

// Plus returns the sums.
func (c Calls) Plus(more Calls) Calls {
	return Calls{
		c.Number + more.Number, c.Work + more.Work, c.Bytes + more.Bytes, c.Operations + more.Operations,
	}
}

// Add counts a call, unless it works over segments or merges partial results: such calls belong to calls that
// are counted.
func (k Kernels) Add(c kernel.Call) (key Kernel, work float64) {
	if c.Shape[1] == 0 {
		return key, 0
	}
	key = Kernel{c.Kernel, [2]int{c.Shape[1], max(1, c.Shape[2])}}
	n := 1 + c.More
	work = float64(n) * float64(c.Shape[0]+c.Entries) * float64(key.Widths[0]) * float64(key.Widths[1])
	all := c.Work()
	k[key] = k[key].Plus(Calls{n, work, float64(all.Streamed + all.Gathered), all.Operations})
	return key, work
}

// Compare orders kernels by name and then by widths.
func (k Kernel) Compare(other Kernel) int {
	return cmp.Or(cmp.Compare(k.Name, other.Name), cmp.Compare(k.Widths[0], other.Widths[0]),
		cmp.Compare(k.Widths[1], other.Widths[1]))
}

// MarshalText writes the name and the widths.
func (k Kernel) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s %d %d", k.Name, k.Widths[0], k.Widths[1]), nil
}

// UnmarshalText reads what MarshalText writes.
func (k *Kernel) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%s %d %d", &k.Name, &k.Widths[0], &k.Widths[1])
	return err
}

// LayerWork is the work of the kernel calls of a layer in a training pass, or of the calls outside all
// layers. The latter are Other: a loss's kernels compute the loss with its gradient.
type LayerWork struct{ Forward, Backward, Other kernel.Work }

// Plus returns the sums.
func (w LayerWork) Plus(more LayerWork) LayerWork {
	return LayerWork{w.Forward.Plus(more.Forward), w.Backward.Plus(more.Backward), w.Other.Plus(more.Other)}
}

// Bounds are the least times of a layer's forward and backward pass, at these rates of a machine. short says
// that products are of BFloat16, not Float32.
func (w *LayerWork) Bounds(rates *machine.Rates, short bool) (forward, backward machine.Bound) {
	return rates.Bound(w.Forward, w.Forward.Least, short), rates.Bound(w.Backward, w.Backward.Least, short)
}

// Add adds the work of a call in a part of the pass.
func (w *LayerWork) Add(part trace.Part, more kernel.Work) {
	sum := &w.Other
	switch part {
	case trace.Forward:
		sum = &w.Forward
	case trace.Backward:
		sum = &w.Backward
	}
	*sum = sum.Plus(more)
}

// ByLayer counts the work of kernel calls by layer.
type ByLayer struct {
	mu    sync.Mutex
	layer int // the layer that is at work
	part  trace.Part
	work  map[int]LayerWork // by layer, and by trace.NoLayer
}

// OnLayer is engine.Config.OnLayer.
func (c *ByLayer) OnLayer(layer int, part trace.Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.layer, c.part = layer, part
}

// Watch counts a kernel call, as kernel.Team.Watch.
func (c *ByLayer) Watch(call kernel.Call, run func()) {
	c.mu.Lock()
	if c.work == nil {
		c.work = map[int]LayerWork{}
	}
	work := c.work[c.layer]
	work.Add(c.part, call.Work())
	c.work[c.layer] = work
	c.mu.Unlock()
	run()
}

// Take returns what was counted, by layer and trace.NoLayer, and begins anew.
func (c *ByLayer) Take() (work map[int]LayerWork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	work, c.work = c.work, nil
	return work
}

// counter counts what a worker does in a training pass.
type counter struct {
	ByLayer
	kernels Kernels
	before  [comm.Kinds]comm.Traffic
}

// watch counts a kernel call, as kernel.Team.Watch.
func (c *counter) watch(call kernel.Call, run func()) {
	c.mu.Lock()
	c.kernels.Add(call)
	c.mu.Unlock()
	c.Watch(call, run)
}

// begin begins to count.
func (c *counter) begin(w *worker.Worker) {
	c.kernels = Kernels{}
	c.before = sent(w.Groups.World)
	c.Take()
	c.OnLayer(trace.NoLayer, trace.Other)
}

// takeWork takes the work of so many layers, followed by the work outside all layers, such as the loss.
func (c *counter) takeWork(layers int) []LayerWork {
	work := make([]LayerWork, layers+1)
	for layer, w := range c.Take() {
		if layer == trace.NoLayer {
			layer = layers
		}
		work[layer] = w
	}
	return work
}

// end returns what was counted.
func (c *counter) end(w *worker.Worker, share *partition.Share) Counts {
	all := Counts{Kernels: c.kernels, Traffic: sent(w.Groups.World), Rows: share.Edges.Types[0].Rows}
	c.kernels = Kernels{}
	for k := range all.Traffic {
		all.Traffic[k].Bytes -= c.before[k].Bytes
		all.Traffic[k].Messages -= c.before[k].Messages
	}
	all.Edges, all.Remote = share.Edges.Count()
	return all
}

func sent(c *comm.Comm) (all [comm.Kinds]comm.Traffic) {
	for k := range all {
		all[k] = c.Sent(comm.Kind(k))
	}
	return all
}
