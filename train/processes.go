package train

import (
	"fmt"
	"hash/crc32"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train/worker"
)

// checkProcesses refuses a mesh on which a process lacks rows of its own in the inputs and outputs.
func (s *passesSession) checkProcesses() error {
	switch {
	case !s.Processes:
	case s.Mesh.Stages > 1:
		return refusal.Errorf("--parallel %s: one process has all stages of a pipeline: take the graph or the tensor "+
			"axis over processes, or start one", s.job.Options.Parallel)
	case s.TakesTurns():
		return refusal.Errorf("--partitions %d: over processes each has one partition: leave it out, or start one "+
			"process", s.Mesh.Partitions)
	}
	return nil
}

// collective has all workers do the same, also the workers of other processes. err is why this process
// refuses the call.
func (p *Passes) collective(call launch.Call, err error, do func(*worker.Passes) error) error {
	if p.Processes == 1 {
		if err != nil {
			return err
		}
		return p.all(do)
	}
	call.Says = fmt.Sprintf("%s, its call %d of net %d%s", call.Says, p.calls+1, p.Net, p.Graph)
	return p.all(func(w *worker.Passes) error {
		if err := w.Ranks().Begin(&call, err); err != nil {
			return err
		}
		p.calls++ // on all processes
		return do(w)
	})
}

// alike are checksums of the parameters and buffers of a pass, which all processes have alike.
func (p *Passes) alike(state nn.State) (all []launch.Alike) {
	if p.Processes == 1 {
		return nil
	}
	for k, name := range p.names {
		all = append(all, launch.Alike{Name: name, Sum: p.sums[k]})
	}
	for _, name := range p.buffers {
		sum := crc32.Checksum(comm.Bytes(state[name].Float32), castagnoli)
		sum = crc32.Update(sum, castagnoli, comm.Bytes(state[name].Int64))
		all = append(all, launch.Alike{Name: name, Sum: sum})
	}
	return all
}

// castagnoli is the polynomial of checksums that processors compute.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Refuse refuses a call of this process. Other processes then refuse their same call, too, so that they do
// not wait for this one.
func (p *Passes) Refuse(err error) error {
	if p.Processes == 1 {
		return err
	}
	return p.collective(launch.Call{}, err, nil)
}

// Vertices are the vertices of a type whose rows the caller has, ascending; nil: all.
func (p *Passes) Vertices(kind int) []int32 {
	if p.Processes == 1 {
		return nil
	}
	return p.begun[0].Rows(kind)
}

// EdgesInto are the edges of a relation whose values the caller gives and gets, as numbers in the graph's
// store, ascending; nil: all. relation is that of the whole graph.
func (p *Passes) EdgesInto(number int, relation *graph.Relation) []int64 {
	if p.Processes == 1 {
		return nil
	}
	return p.begun[0].EdgesInto(number, relation)
}

// Sum is Passes.Sum of the worker. call says of what.
func (p *Passes) Sum(call launch.Call, ofGroup bool, values []float64) error {
	if ofGroup {
		call.Says += " over its group"
	}
	return p.collective(call, nil, func(w *worker.Passes) error { return w.Sum(ofGroup, values) })
}

// FromFirst copies the values of the first process to all others.
func (p *Passes) FromFirst(values []float32) error {
	call := launch.Call{Says: "the values of the first process"}
	return p.collective(call, nil, func(w *worker.Passes) error {
		return w.FromFirst(values)
	})
}

// FetchRows is Passes.FetchRows of the worker.
func (p *Passes) FetchRows(kind, columns int, vertices []int32, owned, fetched []float32) error {
	call := launch.Call{Says: fmt.Sprintf("rows of %d columns of type %d", columns, kind)}
	return p.collective(call, nil, func(w *worker.Passes) error {
		return w.FetchRows(kind, columns, vertices, owned, fetched)
	})
}

// ReturnRows is Passes.ReturnRows of the worker.
func (p *Passes) ReturnRows(kind, columns int, vertices []int32, owned, fetched []float32) error {
	call := launch.Call{Says: fmt.Sprintf("backward of rows of %d columns of type %d", columns, kind)}
	return p.collective(call, nil, func(w *worker.Passes) error {
		return w.ReturnRows(kind, columns, vertices, owned, fetched)
	})
}
