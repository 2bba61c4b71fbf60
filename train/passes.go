package train

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/nn"
	"weft/train/plan"
	"weft/train/worker"
)

// Passes are forward and backward passes of a job's program, for which a caller asks one at a time. The loss,
// the optimizer and the values of the parameters are the caller's. Either all workers are goroutines of this
// process, and wait between two passes. Or each worker is in a process of its own, whose caller has the
// worker's rows, and all callers make the same calls in the same order. If several groups of workers hold the
// graph, each group takes a sample of its own in a pass, and a process gives a sample to each of its groups.
//
// A pass that records lives until Backward or Drop. Several may live at a time, each with its own parameters,
// unless a partition is divided into chunks. After an error that is no refusal the workers have ended.
type Passes struct {
	Types   []VertexType // with the vertices whose rows the caller has
	Outputs []Output     // by vertex type, ascending, and then by relation
	// EdgeCounts is, by relation, the number of edges whose values the caller gives and gets; nil: of all
	// edges.
	EdgeCounts []int

	inputColumns map[int]int

	Process, Processes int    // the number of this process, and how many there are
	Net                int    // what the callers of all processes call this, in errors
	Graph              string // names the graph in errors; "": all processes have the same
	// Group is the number of this process's group among the Groups that take samples of their own. It is 0 if
	// the process has all groups.
	Group, Groups int

	calls   int // how many calls all processes have made together
	mu      sync.Mutex
	asked   []chan request // by rank
	done    chan struct{}  // the workers have ended
	fails   sync.Once
	fault   chan struct{} // closed when a worker fails, so that the others end
	err     error         // why they ended
	live    map[int]int   // passes that record and have not ended, with the number of the call
	last    [][]float32   // the parameters of the pass before
	sums    []uint32      // their checksums, if there are several processes
	limit   int64         // of a worker's memory, in bytes; 0: none
	rests   string        // setting.Options.Offload, where matrices rest
	names   []string      // of the parameters
	buffers []string      // the names of the buffers
	begun   []begun       // the workers that have begun
	// plan plans a pass by the inputs that it is given. planned keeps the plans, by these inputs.
	plan    func(*worker.Forward) (plan.Plan, error)
	planned map[string]plan.Plan
	state   nn.State // of the model's parameters and buffers, in the shapes that files hold
}

// VertexType is a type of the graph's vertices.
type VertexType struct {
	Name     string `json:"name"` // "": there is one
	Vertices int    `json:"vertices"`
	Features int    `json:"features"` // columns
}

// Output is the rows of a vertex type, or of a relation's edges, that a pass computes.
type Output struct {
	Type    int // the number of the vertex type, or of the relation
	Edges   bool
	Columns int
}

// request is work of all workers.
type request struct {
	do    func(*worker.Passes) error
	reply chan<- error
}

// State are the parameters and buffers of the model, without values. parameters are the names of the
// parameters.
func (p *Passes) State() (state nn.State, parameters []string) { return p.state, p.names }

// serve does what is asked of a worker until the caller closes the Passes.
func (p *Passes) serve(w *worker.Passes, c *comm.Comm, asked chan request) error {
	for {
		var r request
		var more bool
		c.Await(func() {
			select {
			case r, more = <-asked:
			case <-p.fault:
			}
		})
		if !more {
			return nil
		}
		err := r.do(w)
		if common := new(Common); err != nil && !errors.As(err, &common) {
			return err // the other workers fail, too
		}
		r.reply <- err
	}
}

// all has all workers do the same. It returns the error on which they agree, or with which they ended.
func (p *Passes) all(do func(*worker.Passes) error) error {
	reply := make(chan error, len(p.asked))
	for _, asked := range p.asked {
		select {
		case asked <- request{do, reply}:
		case <-p.done:
			return p.ended()
		}
	}
	var failed error
	for range p.asked {
		select {
		case err := <-reply:
			failed = err
		case <-p.done:
			return p.ended()
		}
	}
	return failed
}

func (p *Passes) ended() error {
	if p.err == nil {
		return errors.New("the workers have ended")
	}
	return p.err
}

// Samples is how many samples a pass of this process takes, each on a group of workers.
func (p *Passes) Samples() int {
	if p.Processes > 1 {
		return 1
	}
	return p.Groups
}

// Forward runs the model forward, with a sample for each group. Pass is a number that no pass has had.
// Forward itself sets Changed. Samples differ only in their features, edges and outputs.
func (p *Passes) Forward(each ...worker.Forward) error {
	f, err := each[0], p.fits(&each[0])
	for kind := range p.inputColumns {
		if err == nil && slices.ContainsFunc(each, func(f worker.Forward) bool {
			return f.Features == nil || f.Features[kind].Values == nil
		}) {
			err = refusal.Errorf("a pass is given no features of type %d, and the graph has none", kind)
		}
	}
	switch {
	case err != nil:
	case len(each) != p.Samples():
		err = refusal.Errorf("a pass of %d samples, where %d groups of workers each take one", len(each),
			p.Samples())
	case f.Seeds != nil && len(f.Seeds) != p.Groups:
		err = refusal.Errorf("%d seeds for the passes of %d groups of workers", len(f.Seeds), p.Groups)
	case p.Processes > 1 && f.Rows != nil:
		err = refusal.Errorf("over processes a pass has all rows of its process: leave out rows, and select " +
			"from its outputs")
	default:
		changed := p.changed(f.Values)
		for k := range each {
			each[k].Changed = changed
		}
	}
	call := launch.Call{Says: f.Says(), Unlike: "has other values than rank 0: the parameters and buffers of a net " +
		"are the same on all processes: give all those of one"}
	if err == nil {
		call.Alike = p.alike(f.Values)
	}
	if err := p.collective(call, err, func(w *worker.Passes) error {
		return w.Forward(each[w.Sample()])
	}); err != nil {
		p.last = nil // the workers may have other parameters
		return err
	}
	if f.Recording {
		p.live[f.Pass] = p.calls
	}
	return nil
}

// changed reports whether the parameters differ from those of the pass before.
func (p *Passes) changed(state nn.State) (changed bool) {
	first := p.last == nil
	for k, name := range p.names {
		values := state[name].Float32
		if first {
			p.last = append(p.last, nil)
		}
		if bytes.Equal(comm.Bytes(p.last[k]), comm.Bytes(values)) {
			continue
		}
		p.last[k], changed = append(p.last[k][:0], values...), true
		if p.Processes > 1 {
			p.sums[k] = crc32.Checksum(comm.Bytes(values), castagnoli)
		}
	}
	return changed
}

// Backward runs a pass backward, and ends it unless Again is set. There is one argument for each sample.
func (p *Passes) Backward(each ...worker.Backward) error {
	b := each[0]
	call := p.live[b.Pass]
	if !p.ends(b.Pass) {
		return p.Refuse(refusal.Errorf("pass %d has no tape: it did not record, or has ended", b.Pass))
	}
	if b.Again {
		p.live[b.Pass] = call
	}
	text := fmt.Sprintf("backward of call %d", call)
	if b.Again {
		text += " with retain_graph"
	}
	err := p.collective(launch.Call{Says: text}, nil, func(w *worker.Passes) error {
		return w.Backward(each[w.Sample()])
	})
	if p.Processes > 1 && refusal.Is(err) { // all processes make this call
		p.live[b.Pass] = call
	}
	return err
}

// Drop ends a pass without a backward pass, if it has not ended.
func (p *Passes) Drop(pass int) error {
	if !p.ends(pass) {
		return nil
	}
	return p.all(func(w *worker.Passes) error {
		w.Drop(pass)
		return nil
	})
}

// Trim gives back memory that no pass needs, as when passes of other graphs follow.
func (p *Passes) Trim() error {
	return p.all(func(w *worker.Passes) error {
		w.Team.Memory.Drain()
		return nil
	})
}

// ends removes a pass from the live ones, and reports whether it was among them.
func (p *Passes) ends(pass int) (lived bool) {
	_, lived = p.live[pass]
	delete(p.live, pass)
	return lived
}

// Totals are the totals of the workers: of memory since they began, and of all else in the last pass that ran
// backward.
func (p *Passes) Totals() (t worker.Totals, err error) {
	err = p.collective(launch.Call{Says: "memory or messages"}, nil, func(w *worker.Passes) error {
		local, err := w.Totals()
		if err == nil && p.Processes > 1 {
			local, err = worker.FromFirst(w.Ranks().Comm, local)
		}
		if w.Ranks().First() || p.Processes > 1 {
			t = local
		}
		return err
	})
	return t, err
}

// StartTrace records what the workers do from now on, in place of what was recorded before.
func (p *Passes) StartTrace() error {
	return p.collective(launch.Call{Says: "the begin of a trace"}, nil, func(w *worker.Passes) error {
		w.StartTrace()
		return nil
	})
}

// StopTrace ends the recording and returns it. It is nil in all processes but the first.
func (p *Passes) StopTrace() (t *trace.Trace, err error) {
	err = p.collective(launch.Call{Says: "the end of a trace"}, nil, func(w *worker.Passes) error {
		local, err := w.StopTrace()
		if local != nil {
			t = local
		}
		return err
	})
	return t, err
}

// Close ends the workers.
func (p *Passes) Close() error {
	for _, asked := range p.asked {
		close(asked)
	}
	<-p.done
	return p.err
}
