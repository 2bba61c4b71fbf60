package exchange

import (
	"weft/autograd"
	"weft/comm"
)

// Failure is the panic value of a pass that another worker's failure ends: a forward or backward pass cannot
// return an error. Package train turns it back into an error.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error that ended the pass.
func (f Failure) Unwrap() error { return f.Err }

// Must ends the worker's pass with err, unless err is nil.
func Must(err error) {
	if err != nil {
		panic(Failure{err})
	}
}

// Peers implements autograd.Peers by the workers of a group.
type Peers struct{ Comm *comm.Comm }

// PeersOf returns the workers of a group as Peers; nil if the worker is alone.
func PeersOf(c *comm.Comm) autograd.Peers {
	if c.Size() == 1 {
		return nil
	}
	return Peers{Comm: c}
}

// Max replaces each value by the largest of the group.
func (p Peers) Max(values []float64) {
	all := make([][]byte, p.Comm.Size())
	gathered := make([]float64, len(values)*len(all))
	for r := range all {
		all[r] = comm.Bytes(gathered[r*len(values) : (r+1)*len(values)])
	}
	Must(p.Comm.AllGather(comm.Statistics, comm.Bytes(values), all))
	for i, v := range gathered {
		values[i%len(values)] = max(values[i%len(values)], v)
	}
}

// Sum replaces each value by its sum over the group, added in rank order.
func (p Peers) Sum(values []float64) { Must(p.Comm.SumDoubles(comm.Statistics, values)) }
