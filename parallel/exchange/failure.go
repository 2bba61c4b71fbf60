package exchange

import (
	"weft/autograd"
	"weft/comm"
)

// Failure is the panic value of a pass that could not go on because of another worker: a forward or backward
// pass has no other way out. Package train turns it into an error again.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap is the error that ended the pass.
func (f Failure) Unwrap() error { return f.Err }

// Must ends the worker's pass with err, unless it is nil.
func Must(err error) {
	if err != nil {
		panic(Failure{err})
	}
}

// Peers are the workers of a group as autograd.Peers.
type Peers struct{ Comm *comm.Comm }

// PeersOf are the workers of a group; nil where the worker is alone in it.
func PeersOf(c *comm.Comm) autograd.Peers {
	if c.Size() == 1 {
		return nil
	}
	return Peers{Comm: c}
}

// Sum replaces each value by its sum over the group, added in rank order.
func (p Peers) Sum(values []float64) { Must(p.Comm.SumDoubles(comm.Statistics, values)) }
