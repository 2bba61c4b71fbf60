package comm

import "context"

// Plan is the transport of a rank in a plan, where no other ranks exist. Its Comm counts what is sent, and
// sends nothing. Data to receive stays as it was. Once ctx is cancelled, messages fail with its cause.
func Plan(ctx context.Context, rank, size int) Transport { return plan{planned{ctx}, rank, size} }

type plan struct {
	message    planned
	rank, size int
}

func (p plan) Rank() int                          { return p.rank }
func (p plan) Size() int                          { return p.size }
func (p plan) Send(_ []byte, _, _ int) Request    { return p.message }
func (p plan) Receive(_ []byte, _, _ int) Request { return p.message }
func (plan) Abort(error)                          {}
func (plan) Close() error                         { return nil }

// planned is a message that is complete, unless the plan is cancelled.
type planned struct{ ctx context.Context }

var done = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (planned) Done() <-chan struct{} { return done }
func (p planned) Err() error          { return context.Cause(p.ctx) }
