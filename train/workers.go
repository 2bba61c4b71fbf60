package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"weft/comm"
	"weft/graph"
	"weft/kernel"
	"weft/parallel"
	"weft/partition"
	"weft/tensor"
)

// Parts are a graph's partitions, of which each worker opens its own.
type Parts struct {
	Whole partition.Whole
	Open  func(p int) (*partition.Share, error)
}

// wholeShare is the share of a worker that is the only one.
func wholeShare(g *graph.Graph) *partition.Share {
	s := &partition.Share{Graph: g, Whole: partition.Whole{
		Vertices: g.Vertices(), Edges: g.Edges(), FeatureColumns: g.Features.Columns, Classes: g.Labels.Classes, Metric: g.Metric,
	}}
	for _, p := range g.Splits {
		s.Whole.Splits = append(s.Whole.Splits, graph.SplitSizes{Train: len(p.Train), Val: len(p.Val), Test: len(p.Test)})
	}
	return s
}

// parts are the graph's partitions, cut now if nobody has done so.
func (j *Job) parts(ctx context.Context, n int) (*Parts, error) {
	if j.Parts != nil {
		return j.Parts, nil
	}
	if j.Graph == nil {
		return nil, errors.New("a job has neither a graph nor partitions")
	}
	if err := j.Graph.CheckMade(); err != nil {
		return nil, err
	}
	a, err := partition.Assign(ctx, j.Graph, j.Options.Assignment(n))
	if err != nil {
		return nil, err
	}
	shares, err := partition.Split(j.Graph, a)
	if err != nil {
		return nil, err
	}
	j.Parts = &Parts{Whole: shares[0].Whole, Open: func(p int) (*partition.Share, error) { return shares[p], nil }}
	return j.Parts, nil
}

// Assignment is how the graph is divided among so many workers where no partition is stored.
func (o *Options) Assignment(workers int) partition.Options {
	method := o.Partition
	if method == autoPartition {
		method = partition.Metis
	}
	return partition.Options{K: workers, Method: method, Seed: o.Seed, Split: o.Split}
}

// eachShare calls f with the share of every worker of this process, one after the other.
func (j *Job) eachShare(ctx context.Context, f func(*partition.Share) error) (err error) {
	return j.shares(ctx, func(n int, open func(p int, f func(*partition.Share) error) error) error {
		if j.Comm != nil {
			return open(j.Comm.Rank(), f)
		}
		for p := range n {
			if err := open(p, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachWorker runs f as every worker of this process: as a goroutine for each of several, with a team and a memory of its own.
func (j *Job) eachWorker(ctx context.Context, f func(*kernel.Team, *comm.Comm, *partition.Share) error) error {
	return j.shares(ctx, func(n int, open func(p int, f func(*partition.Share) error) error) error {
		if n == 1 || j.Comm != nil {
			mem := tensor.NewMeter()
			defer mem.Close()
			p := 0
			if j.Comm != nil {
				p = j.Comm.Rank()
			}
			err := open(p, func(s *partition.Share) error { return f(kernel.NewTeam(j.threads(), mem), j.Comm, s) })
			if j.Comm != nil {
				breakOff(j.Comm, err)
			}
			return err
		}
		ends, errs, memories := comm.InProcess(n), make([]error, n), make([]*tensor.Meter, n)
		var all sync.WaitGroup
		for p := range n {
			memories[p] = tensor.NewMeter()
			c := comm.New(ends[p], j.Options.CommTimeout)
			all.Go(func() {
				errs[p] = open(p, func(s *partition.Share) error { return f(kernel.NewTeam(j.threads(), memories[p]), c, s) })
				breakOff(c, errs[p])
			})
		}
		all.Wait()
		for _, m := range memories { // not before all are done: they copy from each other's memory
			m.Close()
		}
		return cause(errs)
	})
}

// breakOff ends the connection of a worker that has failed, unless all have failed alike.
func breakOff(c *comm.Comm, err error) {
	if common := (*Common)(nil); err != nil && !errors.As(err, &common) {
		c.Abort(err)
	}
}

// cause is the error that the others follow from.
func cause(errs []error) (first error) {
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, comm.ErrAborted) && !errors.Is(err, comm.ErrAborted)) {
			first = err
		}
	}
	return first
}

// shares checks the job and calls f with the number of workers and a function that opens the share of one of them for a function
// which reads its arrays and allocates tensors.
func (j *Job) shares(ctx context.Context, f func(n int, open func(p int, f func(*partition.Share) error) error) error) error {
	if err := j.Options.Validate(); err != nil {
		return err
	}
	n, err := j.Options.Workers()
	if err != nil {
		return err
	}
	if n == 1 {
		share := wholeShare(j.Graph)
		return f(1, func(_ int, f func(*partition.Share) error) error {
			return guarded(share, func() error {
				if err := j.Graph.CheckMade(); err != nil {
					return err
				}
				return f(share)
			})
		})
	}
	parts, err := j.parts(ctx, n)
	if err != nil {
		return err
	}
	return f(n, func(p int, f func(*partition.Share) error) error {
		share, err := parts.Open(p)
		if err != nil {
			return err
		}
		defer share.Close()
		return guarded(share, func() error { return f(share) })
	})
}

// guarded runs f, and turns what can go wrong outside the program into errors: memory that is refused, files that are cut, other
// workers that fail.
func guarded(share *partition.Share, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tensor.OutOfMemory:
			err = fmt.Errorf("%w; see what the run needs with --explain", p)
		case parallel.Failure:
			err = p.Err
		default:
			panic(p)
		}
	}()
	return share.Graph.Guard(f)
}

// threads is the number of threads of a worker: the cores that the process may use are divided among the workers that share them.
func (j *Job) threads() int {
	o := &j.Options
	if o.Threads > 0 {
		return o.Threads
	}
	all, _ := o.Workers() // of a job whose options are valid
	return max(1, runtime.GOMAXPROCS(0)/cmp.Or(j.CoreSharers, j.LocalWorkers, all))
}
