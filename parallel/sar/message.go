package sar

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// messageEdges is the largest number of edges for which a message function is called at once. It bounds the
// memory of the function's tape.
const messageEdges = 1 << 13

// deviceEdges is messageEdges on a device, so that a kernel takes longer than its launch. It is also the
// largest number of rows of the edges' targets. For each batch the host writes lists of ends, and matrices
// that sum by them, and the device reads them: 40 to 56 bytes for each edge, and 8 for each row.
const deviceEdges = 1 << 15

// Into are the rows of a partition into which messages are computed.
type Into struct {
	Rows *autograd.RowSet
	// Places (Int32, 1 × n) are the rows of axis.Env.Own, ascending; nil: all.
	Places *tensor.Matrix
}

// Message implements gnn.Propagator.
func (p *propagator) Message(m gnn.Message) *autograd.Var {
	_, target := p.part.Ends(p.along)
	return p.MessageInto(m, Into{Rows: p.part.Types()[target]})
}

// MessageInto is Message for some targets: m.Target and the result have these rows. It computes the messages
// of a few edges at a time, aggregates them, and drops them. The backward pass fetches the source rows again
// and recomputes each edge's message on a tape of its own (case 2).
func (p *propagator) MessageInto(m gnn.Message, into Into) *autograd.Var {
	exchange.Must(m.Check(p.layer.Path, into.Rows.Here))
	if m.Reduce == gnn.KindMin {
		f := m.Function
		m.Function = func(e gnn.Edges) *autograd.Var { return negated(f(e)) }
		m.Reduce = gnn.KindMax
		return negated(p.MessageInto(m, into))
	}
	run, c := p.messages("messages", m, into)
	t, e := run.tape, c.Edges
	var some *tensor.Matrix
	if m.Reduce == gnn.KindMean {
		run.factors = e.MeanFactors(m.Loops, 0)
		if into.Places != nil {
			some = t.Team.Picked(run.factors, into.Places)
			run.factors = some
		}
	}
	added := batches
	if m.Reduce == gnn.KindMax {
		added = 1 // a maximum of stored numbers is itself a stored number
	}
	z := t.NewSum(added, into.Rows.Here, m.Columns)
	t.Team.Zero(z)
	if m.Reduce == gnn.KindMax {
		run.arg = t.Memory().NewElement(tensor.Activations, tensor.Int32, into.Rows.Here, m.Columns)
		t.Team.Fill(run.arg, -1)
	}
	run.forward(c, func(b *batch, messages *tensor.Matrix) { run.aggregate(z, b, messages) })
	return run.record(c, autograd.Op{
		Value: t.Rounded(z), Rows: into.Rows, Buffers: []*tensor.Matrix{run.arg, some},
		Backward: func(g *tensor.Matrix) {
			run.backward(c, func(b *batch) *tensor.Matrix { return run.spread(b, g) })
			g.Release()
		},
	})
}

// messages is one call of Message or ApplyEdges on a tape.
type messages struct {
	gnn.Message
	Into
	tape     *autograd.Tape
	path     string
	own      []*edges.Block // blocks whose sources are local or not read, and self loops
	edgeRows []edgeRows     // of Message.EdgeRows
	mask     *float32       // a factor of the messages along blocks with MaskGradients; nil: none
	stored   *tensor.Matrix // Int32: how many loops of each vertex come before an added one; nil: none
	vertices int            // how many vertices of the sources' type the graph has
	factors  *tensor.Matrix // 1/in-degree for a mean, else nil
	arg      *tensor.Matrix // Int32: the vertices that have the maximum, else nil
}

// messages begins a call. what names its results.
func (p *propagator) messages(what string, m gnn.Message, into Into) (*messages, *Call) {
	t := m.Ends()[0].Tape()
	c := p.call(t)
	e := c.Edges
	p.layer.Explain(func() string {
		columns := 0
		if m.Source != nil {
			columns = m.Source.Cols()
		}
		return fmt.Sprintf("%s of %d columns, a function of %d of the source", what, m.Columns, columns)
	})
	run := &messages{
		Message: m, Into: into, tape: t, path: p.layer.Path,
		vertices: p.part.vertices(p.along), own: e.LoopBlocks(m.Loops),
	}
	if e.Masked() && !m.Unmasked {
		run.mask = new(e.Mask())
	}
	for _, x := range m.EdgeRows {
		at, _ := into.places(e, x.Loops)
		run.edgeRows = append(run.edgeRows, edgeRows{EdgeRows: x, at: at})
	}
	if !m.Loops.Only() {
		run.own = append([]*edges.Block{e.Local()}, run.own...)
		if m.Source == nil { // without sources nothing is received
			run.own = append(run.own, e.Remote()...)
		}
	}
	if m.Loops == gnn.AddedLoops {
		run.stored = e.Loops
	}
	return run, c
}

// record records the operation of a call. It adds what the function reads to the operation's inputs.
func (m *messages) record(c *Call, op autograd.Op) *autograd.Var {
	op.Inputs = m.Ends()
	for _, x := range m.EdgeRows {
		op.Inputs = append(op.Inputs, x.Var)
	}
	op.Inputs = append(op.Inputs, m.Reads...)
	op.Keeps, op.Buffers = slices.Clone(op.Inputs), append(op.Buffers, c.buffers...)
	for _, q := range m.Parameters {
		op.Inputs = append(op.Inputs, q.On(m.tape))
	}
	if c.Edges.Differentiable() { // an input without a gradient makes a backward pass
		op.Inputs = append(op.Inputs, m.tape.Input(op.Value, nil))
	}
	return m.tape.Record(op)
}

// count counts a pass over the edges.
func (m *messages) count(c *Call) {
	entries := c.Edges.Entries()
	if m.Places != nil {
		entries = c.Edges.OwnEntries()
	}
	c.part.Count(c.Path, entries, m.Columns)
}

// receives reports whether rows of the sources are received.
func (m *messages) receives() bool { return m.Source != nil && !m.Loops.Only() }

// forward computes all messages, one batch of edges at a time. It passes them to use, which must not keep
// them.
func (m *messages) forward(c *Call, use func(b *batch, messages *tensor.Matrix)) {
	m.count(c)
	visits := func(func(Visit) bool) {}
	var x *tensor.Matrix
	if m.receives() {
		x = m.Source.Value()
		visits = c.fetch(x)
	}
	compute := func(source *tensor.Matrix) func(b *batch) {
		return func(b *batch) {
			e, rows := m.ends(b, source, false)
			mask := m.masks(b, e)
			out := m.call(e, b.n, mask)
			use(b, out.Value())
			out.Drop()
			exchange.Release(rows...)
			mask.release()
		}
	}
	for _, block := range m.own {
		m.each(block, compute(x))
	}
	for v := range visits {
		m.each(v.Block, compute(v.Rows[0]))
	}
}

// backward adds all gradients of the call. gradient returns the gradient of a batch's messages, which
// backward then owns.
func (m *messages) backward(c *Call, gradient func(b *batch) *tensor.Matrix) {
	c.resume()
	m.count(c)
	var dx, dTarget *tensor.Matrix
	var from []*autograd.Var
	var grads []*tensor.Matrix
	if wanted(m.Source) {
		dx = m.Source.BlockGradSum(batches)
		from = append(from, m.Source)
		grads = append(grads, dx)
	}
	if wanted(m.Target) {
		dTarget = separateGradient(m.Target, m.Source, batches)
	}
	for _, x := range m.edgeRows {
		x.beginGradient()
	}
	var x *tensor.Matrix
	visits := func(func(Visit) bool) {}
	if m.receives() {
		x = m.Source.Value()
		visits = c.rematerialize([]*tensor.Matrix{x}, from, grads)
	}
	team := m.tape.Team
	for _, block := range m.own {
		m.each(block, func(b *batch) { m.addGradients(b, gradient, x, dx, dTarget) })
	}
	for v := range visits {
		var dSource *tensor.Matrix
		if len(v.Grads) > 0 {
			dSource = m.sum(v.Grads[0])
			team.Zero(dSource)
		}
		m.each(v.Block, func(b *batch) { m.addGradients(b, gradient, v.Rows[0], dSource, dTarget) })
		if len(v.Grads) > 0 && dSource != v.Grads[0] {
			team.Convert(v.Grads[0], dSource)
			dSource.Release()
		}
	}
	if dx != nil {
		m.Source.AddBlockGrad(dx)
	}
	if dTarget != nil {
		m.Target.AddBlockGrad(dTarget)
	}
}

// wanted reports whether v is a value that needs a gradient.
func wanted(v *autograd.Var) bool { return v != nil && v.RequiresGrad() }

// batches says that gradients are summed over several batches of edges.
const batches = 2

// sum returns a Float32 matrix of like's size, or like itself if it is Float32.
func (m *messages) sum(like *tensor.Matrix) *tensor.Matrix {
	if like.Element == tensor.Float32 {
		return like
	}
	return m.tape.Memory().New(tensor.Buffers, like.Rows, like.Cols)
}

// ends puts the rows of both ends of a batch's edges on a tape. The caller releases the matrices.
func (m *messages) ends(b *batch, source *tensor.Matrix,
	recording bool,
) (e gnn.Edges, rows []*tensor.Matrix) {
	t, set := m.tape, &autograd.RowSet{Here: b.n, Total: autograd.NotVertices, IDs: b.keys}
	tape := &autograd.Tape{
		Team: t.Team, Recording: recording, Training: t.Training, Random: t.Random, Storage: t.Storage,
		Announced: map[*tensor.Matrix]bool{},
	}
	for _, q := range m.Parameters {
		tape.Announced[q.Grad] = true
	}
	picked := func(from, list *tensor.Matrix, at, cols int) *tensor.Matrix {
		x := t.Memory().NewElement(tensor.Buffers, from.Element, b.n, cols)
		if cols == from.Cols {
			t.Team.Gather(x, from, list)
		} else {
			t.Team.PickColumns(x, from, list, at)
		}
		rows = append(rows, x)
		return x
	}
	gathered := func(input *autograd.Var, from, list *tensor.Matrix, parts []int) (vars []*autograd.Var) {
		if parts == nil {
			parts = []int{from.Cols}
		}
		at := 0
		for _, cols := range parts {
			x := picked(from, list, at, cols)
			at += cols
			vars = append(vars, onTape(tape, x, set, input.RequiresGrad()))
		}
		return vars
	}
	e = gnn.Edges{Tape: tape, FirstColumn: m.FirstColumn, Loops: b.block.Added}
	if m.Source != nil {
		e.Sources = gathered(m.Source, source, b.sources, m.SourceParts)
		e.Source = e.Sources[0]
	}
	if m.Target != nil {
		e.Targets = gathered(m.Target, m.Target.Value(), b.targets, m.TargetParts)
		e.Target = e.Targets[0]
	}
	for _, x := range m.edgeRows {
		e.Rows = append(e.Rows, onTape(tape, x.at.rows(x.Value(), b), set, x.RequiresGrad()))
	}
	if b.weights != nil {
		e.Weight = onTape(tape, b.weights, set, b.block.WeightGradients != nil)
	}
	switch f := b.features; {
	case f == nil:
	case b.entries != nil:
		e.Features = onTape(tape, picked(f, b.entries, 0, f.Cols), set, b.block.FeatureGradients != nil)
	default:
		e.Features = onTape(tape, f, set, b.block.FeatureGradients != nil)
	}
	return e, rows
}

// onTape puts rows of edges on a tape. requiresGrad asks for their gradient.
func onTape(tape *autograd.Tape, rows *tensor.Matrix, set *autograd.RowSet, requiresGrad bool) *autograd.Var {
	if requiresGrad {
		return tape.Input(rows, set)
	}
	return tape.Constant(rows, set)
}

// addEdgeGradients adds the gradients of the batch's edges to those of the block.
func (m *messages) addEdgeGradients(b *batch, v *autograd.Var, grads *tensor.Matrix) {
	if grads == nil {
		return
	}
	grad := v.TakeGrad()
	if b.entries != nil {
		m.tape.Team.ScatterAdd(grads.RowRange(b.first, grads.Rows), grad, b.entries)
	} else {
		m.tape.Team.Columns(grads.RowRange(b.first, b.first+b.n), 0, grad, 0, grads.Cols, kernel.Accumulate)
	}
	grad.Release()
}

// call computes the messages of the batch's edges, in the tape's element type.
func (m *messages) call(e gnn.Edges, n int, by mask) *autograd.Var {
	out := e.Tape.Scope(func() *autograd.Var { return autograd.Stored(by.scale(m.Function(e))) })
	if out.Rows() != n || out.Cols() != m.Columns {
		panic(tensor.Mismatched("the message function of %s gives %d×%d, and needs %d×%d: a row for each edge, "+
			"and Columns", m.path, out.Rows(), out.Cols(), n, m.Columns))
	}
	return out
}

// aggregate adds the batch's messages to z. For a maximum it also writes which ids have it.
func (m *messages) aggregate(z *tensor.Matrix, b *batch, messages *tensor.Matrix) {
	team := m.tape.Team
	if m.arg != nil {
		team.Max(z.RowRange(b.lo, b.hi), m.arg.RowRange(b.lo, b.hi), b.into, messages, b.ids, nil,
			kernel.Accumulate)
		return
	}
	team.SpMM(z.RowRange(b.lo, b.hi), b.into, messages, kernel.Scales{Row: m.meanFactors(b)},
		kernel.Accumulate)
}

// meanFactors returns the factors 1/in-degree of a mean for the batch's targets.
func (m *messages) meanFactors(b *batch) *tensor.Matrix {
	if m.factors == nil {
		return nil
	}
	return m.factors.RowRange(b.lo, b.hi)
}

// spread returns the gradient of the batch's messages from g, the gradient of their aggregation.
func (m *messages) spread(b *batch, g *tensor.Matrix) *tensor.Matrix {
	team := m.tape.Team
	d := m.tape.Memory().NewElement(tensor.Gradients, m.tape.Storage, b.n, m.Columns)
	if m.arg != nil {
		team.Zero(d)
		team.MaxBackward(d, b.spread, g.RowRange(b.lo, b.hi), m.arg.RowRange(b.lo, b.hi), b.ids, nil)
	} else {
		team.SpMM(d, b.spread, g.RowRange(b.lo, b.hi), kernel.Scales{Col: m.meanFactors(b)}, kernel.Replace)
	}
	return d
}

// addGradients recomputes the batch's messages and runs them backward from their gradient, which the function
// gradient returns. It adds the gradients of the sources' rows to dSource, and the gradients of the targets'
// rows to dTarget.
func (m *messages) addGradients(b *batch, gradient func(b *batch) *tensor.Matrix, source, dSource,
	dTarget *tensor.Matrix,
) {
	e, rows := m.ends(b, source, true)
	mask := m.masks(b, e)
	out := m.call(e, b.n, mask)
	team := m.tape.Team
	mem := m.tape.Memory()
	e.Tape.Backward(autograd.Root{Var: out, Grad: gradient(b)})
	m.addEdgeGradients(b, e.Weight, b.block.WeightGradients)
	m.addEdgeGradients(b, e.Features, b.block.FeatureGradients)
	if mask.Var != nil {
		m.addEdgeGradients(b, mask.Var, b.block.MaskGradients)
		mask.release()
	}
	for i, x := range m.edgeRows {
		x.addGradient(b, e.Rows[i])
	}
	if wanted(m.Source) {
		b.bySource(team, source.Rows)
		sums := mem.New(tensor.Buffers, b.n, source.Cols)
		grad := m.takeGrads(e.Sources, b.n)
		team.SpMM(sums.RowRange(0, b.distinct.Cols), b.outOf, grad, kernel.Scales{}, kernel.Replace)
		grad.Release()
		team.ScatterAdd(dSource, sums, b.distinct)
		sums.Release()
	}
	if dTarget != nil {
		grad := m.takeGrads(e.Targets, b.n)
		team.SpMM(dTarget.RowRange(b.lo, b.hi), b.into, grad, kernel.Scales{}, kernel.Accumulate)
		grad.Release()
	}
	exchange.Release(rows...)
}

// takeGrads returns the gradients of the parts of an end's rows, side by side. The caller owns the matrix.
func (m *messages) takeGrads(parts []*autograd.Var, n int) *tensor.Matrix {
	if len(parts) == 1 {
		return parts[0].TakeGrad()
	}
	cols := 0
	for _, x := range parts {
		cols += x.Cols()
	}
	all, at := m.tape.Memory().NewElement(tensor.Gradients, parts[0].Element(), n, cols), 0
	for _, x := range parts {
		grad := x.TakeGrad()
		m.tape.Team.Columns(all, at, grad, 0, x.Cols(), kernel.Replace)
		grad.Release()
		at += x.Cols()
	}
	return all
}
