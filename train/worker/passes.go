package worker

import (
	"time"

	"weft/autograd"
	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// Passes is a worker of a model for whose passes a caller asks, one at a time. The loss, the optimizer and
// the values of the parameters are the caller's. All workers of all groups call its methods together. Workers
// of one group and one process give the same arguments, whose slices they share.
type Passes struct {
	callerRows
	config  engine.Config // of the engine
	apart   *apart        // nil: no pass has computed only some rows
	epoch   int           // passes in training
	live    map[int]*livePass
	values  *values
	forward Tally // of the last forward pass that records
}

// callerRows are the rows of vertices and edges whose values the caller of a worker gives and gets.
type callerRows struct {
	*Worker
	owners    map[int][]int32    // by vertex type and vertex: the process that has its row
	heldEdges map[int]*heldEdges // by relation
}

// values are the values of the parameters in one or several passes.
type values struct {
	users int              // how many live passes have them
	old   []*tensor.Matrix // nil: the parameters still have these values
}

// livePass is a pass that may be run backward.
type livePass struct {
	engine.Pass
	engine  engine.Engine
	memory  *tensor.Meter // of an engine of its own; nil: the pass has the engine of all passes
	places  [][]int32     // of the outputs' rows, as placesIn gives them
	routed  []*heldEdges
	call    engine.Call
	values  *values
	buffers [][]float32 // the buffers' values before the pass, for its backward pass
}

// Forward is what a forward pass is given, and where its results go.
type Forward struct {
	Pass int // its number, for Backward and Drop
	// Values are the values of the parameters and buffers. Forward sets the buffers that the pass changes.
	// nil: a plan.
	Values    nn.State
	Changed   bool          // whether the parameters differ from those of the pass before
	Seeds     []uint64      // of the dropout masks, by group; nil: 0
	Training  bool          // dropout is active, and norms take the batch's statistics
	Recording bool          // there may be a backward pass
	Features  []InputValues // by vertex type; nil: all are the graph's
	Edges     []EdgeValues  // of the relations for which the pass is given edges
	// Outputs are the outputs of vertices, by vertex type, and then those of edges, by relation. The blocks
	// of an output follow each other in its columns. nil: a plan.
	Outputs [][]ColumnBlock
	// Relations are, by output, the relation of the whole graph of whose edges the output has rows, in the
	// order of the graph's store. nil, or a nil entry: the output has rows of vertices. Rows of edges that a
	// pass is not given are not written.
	Relations []*graph.Relation
	// Rows are, by vertex type, the vertices whose rows an output has, each once, ascending; nil, or a nil
	// entry: all.
	Rows [][]int32
}

// InputValues are values in place of the graph's.
type InputValues struct {
	// Values are the values of all vertices, in the order of their ids, or of Rows; nil: the graph's. A
	// backward pass writes their gradients there.
	Values         []float32
	Differentiable bool // the backward pass computes their gradients
}

// ColumnBlock is some of the columns of an output.
type ColumnBlock struct {
	Columns int
	Whole   bool // all vertices have the same row, which Values has once
	// Everywhere says that each of several processes has the rows of all vertices, not of its own alone.
	Everywhere bool
	Values     []float32 // of all vertices, in the order of their ids, or of Rows; or of all edges
}

// Backward is what a backward pass is given, and where its results go.
type Backward struct {
	Pass      int
	Outputs   [][]ColumnBlock // the gradients of the outputs; nil: a plan
	Gradients nn.State        // of the parameters; nil: a plan
	Features  []InputValues   // by vertex type: Values get the gradients of differentiable features
	Edges     []EdgeValues    // they get the gradients of differentiable weights and features
	Again     bool            // the pass stays, for another backward pass
}

// NewPasses makes one of the workers that world connects.
func NewPasses(c Config, team *kernel.Team, world *comm.Comm, share *partition.Share) (*Passes, error) {
	w, e, err := begin(c, team, world, share)
	if err != nil {
		return nil, err
	}
	e.Training = true
	p := &Passes{
		callerRows: callerRows{w, map[int][]int32{}, map[int]*heldEdges{}},
		config:     e, live: map[int]*livePass{}, values: &values{},
	}
	if w.engine, err = engine.New(e); err != nil {
		return nil, err
	}
	if err := w.infers(w.engine); err != nil {
		return nil, err
	}
	team.Memory.SetAllReadOnly(tensor.Graph)
	team.Memory.SetAllReadOnly(tensor.Features)
	team.Memory.MeasureGraph()
	w.Begin()
	return p, nil
}

// LiveBytes are the bytes of tensors and of the graph's structure now.
func (p *Passes) LiveBytes() int64 {
	return p.Team.Memory.LiveTensors() + p.Team.Memory.Live(tensor.Graph)
}

// begins begins a part of a pass. ends returns the tally of this part together with before.
func (p *Passes) begins(name string, before Tally) (ends func() Tally) {
	span, start, done := p.phase(name), time.Now(), p.done().since(before)
	return func() Tally {
		span.End()
		p.Groups.World.At(0, "")
		t := p.done().since(done)
		t.Seconds = before.Seconds + time.Since(start).Seconds()
		return t
	}
}

// StartTrace records what the worker does from now on, in place of what was recorded before.
func (p *Passes) StartTrace() { p.Recorder.Start(p.epoch) }

// StopTrace ends the recording. Worker 0 returns what all workers did.
func (p *Passes) StopTrace() (*trace.Trace, error) {
	p.Recorder.Stop()
	return p.Trace()
}

// Forward runs the model forward. A pass that records lives until Backward or Drop ends it. If chunks of a
// partition read each other's rows, Forward refuses a second pass while one lives, and a pass that records in
// evaluation.
func (p *Passes) Forward(f Forward) error {
	switch {
	case p.inChunks() && len(p.live) > 0:
		return p.refuseInChunks("chunks read each other's rows of the pass before, which has not run backward: " +
			"call backward first, drop its output")
	case p.inChunks() && f.Recording && !f.Training:
		return p.refuseInChunks("chunks read each other's rows of passes before, and a pass in evaluation has its " +
			"own: call it under torch.no_grad")
	}
	if f.Training {
		p.epoch++
	}
	ends := p.begins("forward pass", Tally{})
	p.give(&f)
	e, memory, err := p.engineOf(&f)
	if err != nil {
		return err
	}
	call := engine.Call{
		Epoch: max(1, p.epoch), Random: autograd.Random{Seed: p.seed(&f), Epoch: 1},
		Training: f.Training, Recording: f.Recording, Features: p.features(e, f.Features),
		Edges: p.givenEdges(f.Edges),
	}
	var buffers [][]float32
	if f.Recording {
		buffers = p.Params.BufferValues()
	}
	pass := e.Forward(call)
	outputs, places := pass.Outputs(), make([][]int32, len(pass.Outputs()))
	routed := make([]*heldEdges, len(outputs))
	for k, blocks := range f.Outputs {
		p.clearShared(blocks)
		places[k], routed[k] = p.placesIn(&f, pass, k)
		from := 0
		for _, b := range blocks {
			here := routed[k].blockOf(b)
			p.spread(here, outputs[k].Value(), from, b.places(places[k], outputs[k]))
			routed[k].reduce(b.Columns, here.Values, b.Values)
			from += b.Columns
		}
		p.sumShared(blocks)
	}
	if f.Training {
		p.commit()
		if !p.Processes && p.SampleGroups > 1 { // the first worker writes the buffers once all have read them
			exchange.Must(p.Groups.All.Barrier(comm.Setup))
		}
		if (p.isPrimary() || p.Processes) && f.Values != nil {
			p.Params.TakeBuffers(f.Values)
		}
	}
	live := &livePass{pass, e, memory, places, routed, call, p.values, buffers}
	live.values.users++
	if tally := ends(); f.Recording {
		p.forward = tally
		p.live[f.Pass] = live
		return nil
	}
	pass.Discard()
	live.end()
	return nil
}

// features makes, for an engine, this worker's rows of the given features.
func (p *Passes) features(e engine.Engine, features []InputValues) (inputs []engine.InputMatrix) {
	if features == nil {
		return nil
	}
	for kind, rows := range e.Inputs() {
		g := engine.InputMatrix{Differentiable: features[kind].Differentiable}
		if values := features[kind].Values; values != nil {
			columns := p.Share.Whole.Types[kind].FeatureColumns
			g.Values = p.input(rows.Here, ColumnBlock{
				Columns: columns, Values: values,
			}, p.placesAmong(rows.List()))
		}
		inputs = append(inputs, g)
	}
	return inputs
}

// give sets parameters and buffers. Live passes keep the parameters with which they were computed.
func (p *Passes) give(f *Forward) {
	if f.Values != nil {
		p.Params.GiveBuffers(f.Values)
	}
	if !f.Changed {
		return
	}
	if p.values.users > 0 {
		p.values.old = p.Params.Renew()
		p.values = &values{}
	}
	if f.Values != nil {
		p.Params.Give(f.Values)
	}
}

// inChunks reports whether chunks of a partition read each other's rows of earlier passes.
func (p *Passes) inChunks() bool {
	return p.Groups.Mesh.Stages > 1 && p.Stage.Count > 1
}

// refuseInChunks refuses what needs one chunk in each partition. why ends with another way out.
func (p *Passes) refuseInChunks(why string) error {
	return &launch.Common{Err: refusal.Errorf("--chunks %d: %s, or take --chunks %d", p.Chunks, why,
		p.Groups.Mesh.Partitions)}
}

// Backward runs a pass backward, and ends it unless b.Again is set. In Worker.Pass, it counts together with
// the last forward pass that records. It refuses b.Again for a pass in chunks.
func (p *Passes) Backward(b Backward) error {
	if b.Again && p.inChunks() {
		return p.refuseInChunks("a pass in chunks is not repeated: leave out retain_graph=True")
	}
	ends := p.begins("backward pass", p.forward)
	live := p.live[b.Pass]
	var roots []autograd.Root
	for k, output := range live.Outputs() {
		grad, from := p.Team.Memory.New(tensor.Gradients, output.Rows(), output.Cols()), 0
		if b.Outputs != nil {
			p.sumShared(b.Outputs[k])
			for _, block := range b.Outputs[k] {
				block.Values = live.routed[k].fetched(block.Columns, block.Values)
				p.fill(grad, from, block, block.places(live.places[k], output))
				from += block.Columns
			}
		}
		roots = append(roots, autograd.Root{Var: output, Grad: grad})
	}
	var grads []*tensor.Matrix
	p.asOf(live, func() { grads = live.Backward(roots...) })
	p.clearFeatures(live, b.Features)
	for kind, grad := range grads {
		if grad != nil && b.Features != nil && b.Features[kind].Values != nil {
			to := ColumnBlock{Columns: grad.Cols, Values: b.Features[kind].Values}
			p.spread(to, grad, 0, p.placesAmong(live.engine.Inputs()[kind].List()))
		}
		grad.Release()
	}
	if b.Edges != nil {
		p.takeEdgeGradients(live.call.Edges, b.Edges)
	}
	if b.Gradients != nil {
		p.takeGradients(b.Gradients)
	}
	p.LastPass = ends()
	p.LastPass.Disk, p.LastPass.Device = p.disk(), p.onDevice()
	if b.Again {
		live.call.Edges.Release() // another backward pass begins new sums of these gradients
		p.asOf(live, func() { live.Pass = live.engine.Forward(live.call) })
		return nil
	}
	delete(p.live, b.Pass)
	live.end()
	return nil
}

// asOf does work of a pass with the parameters and buffers that the pass was given, as it may compute values
// again.
func (p *Passes) asOf(live *livePass, do func()) {
	if old := live.values.old; old != nil {
		now := p.Params.Swap(old)
		defer p.Params.Swap(now)
	}
	now := p.Params.BufferValues()
	p.Params.SetBufferValues(live.buffers)
	defer p.Params.SetBufferValues(now)
	do()
}

// Drop ends a pass without a backward pass.
func (p *Passes) Drop(pass int) {
	live := p.live[pass]
	delete(p.live, pass)
	live.Discard()
	live.end()
}

// end releases what the pass was given.
func (l *livePass) end() {
	l.call.Release()
	if l.memory != nil {
		l.memory.Retire()
	}
	if l.values.users--; l.values.users == 0 {
		for _, m := range l.values.old {
			m.Release()
		}
	}
}

// isPrimary reports whether this worker's replicas of parameters, gradients and buffers are the ones to copy.
func (p *Passes) isPrimary() bool { return p.Groups.Learners.Rank() == 0 }

// input makes features of so many rows: those of the ids in a block, as in fill.
func (w *Worker) input(rows int, b ColumnBlock, ids []int32) *tensor.Matrix {
	m := w.Team.Memory.NewElement(tensor.Features, w.Team.Storage, rows, b.Columns)
	w.fill(m, 0, b, ids)
	return m
}

// rowsOfPart is how many rows a thread copies at a time.
const rowsOfPart = 256

// eachRow calls copyRow for each row of a matrix, on the team's threads, with the row's place in a block. ids
// are the places, as the vertices of the matrix's rows; nil: row v is vertex v.
func (w *Worker) eachRow(m *tensor.Matrix, ids []int32, copyRow func(row, vertex int)) {
	w.Team.Parallel((m.Rows+rowsOfPart-1)/rowsOfPart, func(part int) {
		for row := part * rowsOfPart; row < min((part+1)*rowsOfPart, m.Rows); row++ {
			vertex := row
			if ids != nil {
				vertex = int(ids[row])
			}
			copyRow(row, vertex)
		}
	})
}

// fill copies the rows of the ids from a block to a matrix, from column from on. Rows that the block lacks
// become zero. Of a block that is Whole, all rows but the first become zero.
func (w *Worker) fill(to *tensor.Matrix, from int, b ColumnBlock, ids []int32) {
	write, zeros := to.Writer(), make([]float32, b.Columns)
	w.eachRow(to, ids, func(row, vertex int) {
		if b.Whole && vertex > 0 || vertex == noRow {
			write(row*to.Cols+from, zeros)
		} else {
			write(row*to.Cols+from, b.row(vertex))
		}
	})
}

// spread copies rows of a matrix, from column first on, to the places of the ids in a block.
func (w *Worker) spread(b ColumnBlock, from *tensor.Matrix, first int, ids []int32) {
	read := from.Reader()
	w.eachRow(from, ids, func(row, vertex int) {
		if vertex != noRow && (!b.Whole || vertex == 0) {
			read(row*from.Cols+first, b.row(vertex))
		}
	})
}

// row is the row of a vertex.
func (b *ColumnBlock) row(vertex int) []float32 { return b.Values[vertex*b.Columns:][:b.Columns] }
