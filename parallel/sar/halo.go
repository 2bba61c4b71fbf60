package sar

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Call is one call of a layer's aggregation. In the forward pass the worker receives the rows of the remote
// blocks' sources, and sends the local rows that other workers need. In the backward pass gradients of these
// rows are sent in the opposite direction.
type Call struct {
	Key
	Edges *edges.Edges
	// Format is the number format of rows, partial sums and their gradients. Scores, which are sent with
	// rows, are sent as stored.
	Format kernel.Format
	scored bool // the last matrix of a message has scores

	part  *Partition
	draws uint64                // keys the draws that encode rows, and the draws that choose columns
	sends func(columns int) int // how many of the columns are sent; nil: all
	by    edges.Operator        // of a linear aggregation

	state
}

// state is what a call keeps from one exchange to the next, or during one.
type state struct {
	column  int              // the first column of the tile at work
	columns int              // the columns of all tiles; 0: there are none
	drawn   *tensor.Matrix   // during an exchange: the columns that are sent, as in exchange.Columns.Sent
	buffers []*tensor.Matrix // rows of each remote block, where they stay
	keeps   bool             // the buffers have the rows until the backward pass
}

// Exchanger does the halo exchanges of a partition.
type Exchanger interface {
	// Begin lets other partitions of the worker, with which this one takes turns, read its part of the
	// exchange, before the worker works on its local rows. visit is nil unless only gradients are sent.
	Begin(c *Call, t Transfer, visit func(Visit) bool)
	// Exchange calls yield for every remote block of a call's edges. If t.Rows is set, Exchange sends local
	// rows to the workers that need them, and each visit has the rows of its block's sources. If t.Grads is
	// set, each visit fills in gradients of these rows, which Exchange sends to their owner. Exchange adds
	// the gradients that it receives for local rows to t.Grads, which a visit must not touch. A failure ends
	// the pass by a panic with an exchange.Failure.
	Exchange(c *Call, t Transfer, yield func(Visit) bool)
}

// Transfer says what a halo exchange moves. Rows of several matrices travel in one message, matrix by matrix:
// first rows of vertices, such as keys, which may be encoded, and then their scores.
type Transfer struct {
	Rows     []*tensor.Matrix // matrices whose rows are fetched; nil: none
	Buffers  []*tensor.Matrix // one for each block's rows; nil: the exchange uses a few of its own in turn
	Received bool             // the rows are in the buffers already
	Grads    []*tensor.Matrix // local rows' gradients are added to these
	// Sent is the form of messages with gradients; nil: none are sent. A gradient that is still being summed
	// is Float32, and travels in the element type of its value.
	Sent exchange.Form
	// Reads are the matrices that visits read if only gradients are sent.
	Reads []*tensor.Matrix
}

// fetches reports whether rows are received.
func (t *Transfer) fetches() bool { return len(t.Rows) > 0 && !t.Received }

// Returns reports whether gradients are sent to the rows' owners.
func (t *Transfer) Returns() bool { return len(t.Sent) > 0 }

// owned reports whether only gradients are sent, so that visits change nothing else. Between partitions of a
// worker, the owner of the rows computes them.
func (t *Transfer) owned() bool { return t.Returns() && len(t.Rows) == 0 }

// Visit is one remote block in a halo exchange.
type Visit struct {
	*edges.Block
	// Rows has, for each matrix of Transfer.Rows, the rows of the block's sources, until the next visit.
	Rows []*tensor.Matrix
	// Grads are for the gradients of the sources' rows, one matrix for each of Transfer.Grads. The visit must
	// set all elements. They are sent after the visit.
	Grads []*tensor.Matrix
	// Pick returns the block's rows of a matrix of Transfer.Reads, until the end of the visit.
	Pick func(*tensor.Matrix) *tensor.Matrix
	// Team computes Grads for sendGradients: the team of this partition, or of another one if it is done in
	// that one's turn.
	Team *kernel.Team
}

// call begins the forward pass of one call of the layer on a tape. All rows of the halo travel.
func (p *propagator) call(t *autograd.Tape) *Call { return p.callOver(t, edges.HaloRows) }

// callLinear is call for a linear aggregation. Halo says what travels.
func (p *propagator) callLinear(t *autograd.Tape, r gnn.Reduce) *Call {
	c := p.callOver(t, p.part.options.Halo)
	var err error
	c.by, err = c.Edges.Operator(r)
	exchange.Must(err)
	return c
}

func (p *propagator) callOver(t *autograd.Tape, h edges.Halo) *Call {
	if p.tape != t {
		p.tape, p.calls = t, 0
	}
	c := &Call{Key: Key{p.layer.Path, p.along, p.calls}, part: p.part}
	p.calls++
	if t.Training {
		o := &p.part.options
		c.Format = o.Wire.Format(p.part.team.Storage)
		if o.WireSchedule != (axis.WireSchedule{}) {
			c.sends = func(n int) int { return o.WireSchedule.Sent(n, t.Random.Epoch, p.part.env.Epochs) }
		}
		c.draws = t.Random.Key(fmt.Sprintf(
			"%s %s %t %d %d", c.Path, c.Along.Relation, c.Along.Reversed, c.Number, p.part.from.Slice,
		))
	}
	c.resume()
	var err error
	c.Edges, err = p.part.edgesOn(t, p.along, h)
	exchange.Must(err)
	return c
}

// resume sets the layer that errors name. Each forward and each backward pass of the layer begins with it.
func (c *Call) resume() { c.part.comm.At(c.part.epoch, c.Path) }

func (c *Call) count(columns int) { c.part.Count(c.Path, c.Edges.Entries(), columns) }

// fetch visits every remote block with its sources' rows of the matrices xs, which share a message. With
// KeepHalo the rows stay in c.buffers. In training these are Buffers of the tape's operation, which releases
// them after its backward pass.
func (c *Call) fetch(xs ...*tensor.Matrix) iter.Seq[Visit] {
	c.keeps = c.part.options.KeepHalo // rematerialize then finds the rows in c.buffers
	if c.keeps {
		for _, b := range c.Edges.Remote() {
			c.buffers = append(c.buffers, exchange.FormOf(xs).New(c.part.team.Memory, 1, b.In.Cols)...)
		}
	}
	t := Transfer{Rows: xs, Buffers: c.buffers}
	c.begin(&t, nil)
	return c.exchange(t)
}

// sendGradients has visit fill in the gradients of every remote block's source rows, with columns of an
// element type. visit reads the matrices reads, and changes nothing else. The returned add adds the gradients
// that other workers send for local rows to dx.
func (c *Call) sendGradients(columns int, e tensor.Element, reads []*tensor.Matrix, visit func(Visit)) (
	add func(dx *tensor.Matrix),
) {
	t := Transfer{Sent: exchange.Form{{Count: columns, Element: e}}, Reads: reads}
	yield := func(v Visit) bool {
		if v.Team == nil {
			v.Team = c.part.team
		}
		pick := v.Picker(v.Team)
		if v.Pick == nil {
			v.Pick = pick.Rows
		}
		visit(v)
		pick.Release()
		return true
	}
	c.begin(&t, yield)
	return func(dx *tensor.Matrix) {
		t.Grads = []*tensor.Matrix{dx}
		c.exchange(t)(yield)
	}
}

// rematerialize visits every remote block again, with its sources' rows of xs, which were kept or are fetched
// once more. Each visit fills in a matrix of gradients for each of dxs, which belong to the Vars vs.
// Gradients that other workers send for local rows are added to dxs.
func (c *Call) rematerialize(xs []*tensor.Matrix, vs []*autograd.Var, dxs []*tensor.Matrix) iter.Seq[Visit] {
	t := Transfer{Rows: xs, Buffers: c.buffers, Received: c.keeps, Grads: dxs, Sent: c.formOf(vs)}
	c.begin(&t, nil)
	return c.exchange(t)
}

// formOf is the form of messages with gradients of these values.
func (c *Call) formOf(vs []*autograd.Var) (f exchange.Form) {
	for _, v := range vs {
		f = append(f, exchange.Columns{Count: v.Cols(), Element: v.Element()})
	}
	return f
}

// Form is the form of messages with rows of these matrices.
func (c *Call) Form(matrices []*tensor.Matrix) exchange.Form {
	return c.sent(exchange.FormOf(matrices))
}

// sent sets how the parts of a message are sent.
func (c *Call) sent(f exchange.Form) exchange.Form {
	rows := len(f)
	if c.scored && rows > 0 {
		rows--
	}
	for i := range f[:rows] {
		f[i].Format, f[i].Sent = c.Format, c.drawn
	}
	return f
}

// Draws are the draws by which rows of a message's matrix are encoded: the same in all passes. ids lists the
// vertices.
func (c *Call) Draws(matrix int, ids *tensor.Matrix) kernel.Draws {
	return kernel.Draws{Key: c.keyOf(matrix), Stream: uint32(c.column), IDs: ids}
}

// GradientDraws are the draws by which a worker encodes the gradients of rows of a message's matrix. They
// differ from sender to sender.
func (c *Call) GradientDraws(matrix, sender int, ids *tensor.Matrix) kernel.Draws {
	return kernel.Draws{
		Key:    autograd.Mix(c.keyOf(matrix) + 1 + uint64(sender)),
		Stream: uint32(c.column), IDs: ids,
	}
}

// keyOf keys the draws of one of the matrices whose rows share a message.
func (c *Call) keyOf(matrix int) uint64 {
	if matrix == 0 {
		return c.draws
	}
	return autograd.Mix(c.draws - uint64(matrix))
}

// sumDraws are the draws by which a worker encodes the partial sums of a message, or their gradients. number
// counts the messages that the worker sends in the exchange.
func (c *Call) sumDraws(k comm.Kind, sender, number int) kernel.Draws {
	key := autograd.Mix(^c.draws + uint64(k)<<48 + uint64(sender)<<24 + uint64(number))
	return kernel.Draws{Key: key, Stream: uint32(c.column)}
}

// sums is the number of terms that the gradient of a local row may have: one from the local edges, and one
// from every other worker or chunk.
func (c *Call) sums() int {
	if c.Edges.Alone() && !c.part.from.Chunk {
		return 1
	}
	return 1 + len(c.Edges.Blocks) + len(c.Edges.Needed)
}

// begin begins an exchange, before the worker works on its local rows.
func (c *Call) begin(t *Transfer, visit func(Visit) bool) {
	if c.sends != nil {
		c.drawn = c.draw(slices.Concat(exchange.FormOf(t.Rows), t.Sent)[0].Count)
	}
	t.Sent = c.sent(t.Sent)
	c.part.from.Exchanger.Begin(c, *t, visit)
}

// exchange ends what begin began.
func (c *Call) exchange(t Transfer) iter.Seq[Visit] {
	return func(yield func(Visit) bool) {
		c.part.from.Exchanger.Exchange(c, t, func(v Visit) bool {
			if !yield(v) {
				panic("sar: a halo exchange was broken off, and other workers would wait for it")
			}
			return true
		})
		c.drawn.Release()
		c.drawn = nil
	}
}

// draw lists which of the columns, counted from the tile's first one, are sent. They are drawn among the
// columns of all tiles: the same on all workers, and in all exchanges of the call.
func (c *Call) draw(columns int) *tensor.Matrix {
	total := cmp.Or(c.columns, columns)
	sent := rand.New(rand.NewPCG(c.draws, 0)).Perm(total)[:c.sends(total)]
	slices.Sort(sent)
	var list []int32
	for _, column := range sent {
		column -= c.column
		if column >= 0 && column < columns {
			list = append(list, int32(column))
		}
	}
	return kernel.List(c.part.team, tensor.Buffers, list)
}

// separateGradient returns the matrix in which the gradient of target is summed, while another goroutine adds
// other workers' gradients to the gradient of source. If source and target are one value, it is a matrix of
// its own, because each row must have one writer. AddBlockGrad then adds it to target's gradient.
func separateGradient(target, source *autograd.Var, blocks int) *tensor.Matrix {
	if target == source && source.RequiresGrad() {
		return target.Tape().Team.Zeros(tensor.Gradients, target.Rows(), target.Cols())
	}
	return target.BlockGradSum(blocks)
}
