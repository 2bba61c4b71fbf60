package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel/reference"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// staged is a model's training by the engine of a pipeline, epoch by epoch. Each epoch has given weights.
type staged struct {
	graph   *graph.Graph
	spec    gnn.Spec
	mesh    mesh.Mesh
	chunks  int     // of each partition
	owners  []int32 // each vertex's partition
	chunk   []int32 // each vertex's chunk of its partition
	options axis.Options
	// recompute computes a chunk's forward pass again in its backward pass.
	recompute bool
	epochs    int
	// weights are the weights at the start of each epoch. nil: train draws new ones for every epoch.
	weights []tensors
	// wrap, unless nil, wraps each worker's transport.
	wrap func(comm.Transport) comm.Transport
	// watch, unless nil, changes each worker's configuration.
	watch func(c *engine.Config)
	// trained, unless nil, is called on each worker after a training pass.
	trained func(c engine.Config)
}

// outcome is the result of an epoch.
type outcome struct {
	loss   float64
	grads  tensors
	logits *reference.Matrix // of an exact inference after the epoch: vertices × classes
	sent   []sent            // in the training pass, by rank
	losses []float64         // each worker's part of the loss
}

// sent is what a worker sends.
type sent struct{ stage, halo, gradient, layout comm.Traffic }

// newStaged divides the vertices of a directed graph with isolated vertices, self loops and duplicate edges
// at random. Its chunks have unequal sizes. Of three or more chunks one is empty, in one of several
// partitions.
func newStaged(t testing.TB, model string, m mesh.Mesh, chunks int) *staged {
	t.Helper()
	s := &staged{graph: Tangled(t), mesh: m, chunks: chunks, epochs: 4}
	s.spec = chunkedSpec(model)
	s.spec.Layers, s.spec.Hidden = 4, 10
	s.options.HistoryPeriod, s.options.ChunkOrder, s.recompute = 2, axis.Fixed, true
	r := rand.New(rand.NewPCG(uint64(chunks), uint64(m.Partitions)))
	for range s.graph.Vertices() {
		p, c := r.Int32N(int32(m.Partitions)), r.Int32N(int32(chunks))
		if c == 0 {
			c = r.Int32N(int32(chunks))
		}
		if chunks > 2 && p == 1 && c == 1 {
			c = 2
		}
		s.owners, s.chunk = append(s.owners, p), append(s.chunk, c)
	}
	return s
}

// workers runs do on each worker, with the configuration of its engine.
func (s *staged) workers(t testing.TB, do func(c engine.Config)) {
	t.Helper()
	blocks, err := s.spec.Blocks(sar.SchemaOf(partition.All(s.graph)), s.graph.Types[0].Labels.Classes)
	require.NoError(t, err)
	cuts, err := gnn.Cut(blocks, s.mesh.Stages, s.graph.Vertices(), s.graph.Edges())
	require.NoError(t, err)
	Workers{Mesh: s.mesh, Graph: s.graph, Owners: s.owners, Wrap: s.wrap}.Run(t, func(c engine.Config) {
		c.Blocks, c.Seed, c.Training, c.Recompute = blocks, 7, true, s.recompute
		c.Options.Options = s.options
		c.Stage.Cuts, c.Stage.Count, c.Stage.Chunks = cuts, s.chunks,
			inPartitions(s.owners, s.mesh.Partitions, s.chunk)
		if s.watch != nil {
			s.watch(&c)
		}
		do(c)
	})
	if t.Failed() {
		t.FailNow()
	}
}

// lossOf is the loss of an engine's output.
func (s *staged) lossOf(e engine.Engine) engine.Loss {
	return func(logits *autograd.Var) (func() float64, *tensor.Matrix) { return s.loss(e.Vertices(), logits) }
}

// run makes every worker's engine, and calls f with it.
func (s *staged) run(t testing.TB, f func(c engine.Config, e engine.Engine)) {
	t.Helper()
	s.workers(t, func(c engine.Config) {
		e, err := engine.New(c)
		exchange.Must(err)
		f(c, e)
	})
}

// train runs the epochs on every worker.
func (s *staged) train(t testing.TB) []outcome {
	t.Helper()
	out := make([]outcome, s.epochs)
	for i := range out {
		if len(s.weights) == i {
			s.weights = append(s.weights, drawnTensors(t, s.graph, s.spec, uint64(i)))
		}
		out[i] = outcome{
			grads: tensors{}, logits: reference.New(s.graph.Vertices(), s.graph.Types[0].Labels.Classes),
			sent: make([]sent, s.mesh.Workers()), losses: make([]float64, s.mesh.Workers()),
		}
	}
	var mu sync.Mutex
	s.run(t, func(c engine.Config, e engine.Engine) {
		live := int64(0)
		for i := range out {
			for _, p := range e.Params().List {
				for k, x := range s.weights[i][p.Name].Data {
					p.Value.Floats()[k] = float32(x)
				}
			}
			before := sentBy(c.Groups.World)
			loss := engine.Train(e, engine.Training(7, 1+i), s.lossOf(e))()
			after := sentBy(c.Groups.World)
			if s.trained != nil {
				s.trained(c)
			}
			mu.Lock()
			o := &out[i]
			o.losses[c.Groups.World.Rank()] = loss
			o.sent[c.Groups.World.Rank()] = sent{
				minus(after.stage, before.stage),
				minus(after.halo, before.halo), minus(after.gradient, before.gradient),
				minus(after.layout, before.layout),
			}
			if c.Groups.Replicas.Rank() == 0 {
				for _, p := range e.Params().List {
					o.grads[p.Name] = reference.From32(p.Grad.Rows, p.Grad.Cols, p.Grad.Floats())
				}
			}
			mu.Unlock()
			e.Params().ZeroGrad()
			logits := e.Infer(0)
			mu.Lock()
			placeRows(o.logits, e.Vertices(), logits.Value())
			mu.Unlock()
			logits.Drop()
			switch now := c.Team.Memory.LiveTensors(); {
			case i == 1:
				live = now
			case i > 1 && now != live:
				panic(fmt.Sprintf("%d bytes live after epoch %d, %d after epoch 2", now, 1+i, live))
			}
		}
	})
	for i := range out {
		for _, part := range out[i].losses { // in the order of the ranks
			out[i].loss += part
		}
	}
	return out
}

// loss is the loss of those of the vertices that train.
func (s *staged) loss(vertices []int32, logits *autograd.Var) (func() float64, *tensor.Matrix) {
	memory := logits.Tape().Team.Memory
	var rows, classes []int32
	for row := range logits.Rows() {
		v := int64(row)
		if vertices != nil {
			v = int64(vertices[row])
		}
		classes = append(classes, int32(s.graph.Types[0].Labels.Class[v]))
		if slices.Contains(s.graph.Types[0].Splits[0].Train, v) {
			rows = append(rows, int32(row))
		}
	}
	int32s := func(list []int32) *tensor.Matrix {
		m := memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(list))
		copy(m.Int32s(), list)
		return m
	}
	y, train := int32s(classes), int32s(rows)
	defer y.Release()
	defer train.Release()
	return nn.LossGradient(logits, nn.Targets{Classes: logits.Cols(), Class: y}, train,
		float64(len(s.graph.Types[0].Splits[0].Train)))
}

func sentBy(c *comm.Comm) sent {
	both := func(a, b comm.Traffic) comm.Traffic {
		return comm.Traffic{Bytes: a.Bytes + b.Bytes, Messages: a.Messages + b.Messages}
	}
	return sent{
		c.Sent(comm.Stage), both(c.Sent(comm.Halo), c.Sent(comm.HaloGradient)), c.Sent(comm.Gradient),
		both(c.Sent(comm.ToSlices), c.Sent(comm.ToRows)),
	}
}

func minus(a, b comm.Traffic) comm.Traffic {
	return comm.Traffic{Bytes: a.Bytes - b.Bytes, Messages: a.Messages - b.Messages}
}

// definition is the same training in double precision.
func (s *staged) definition() *gnnPipe {
	p := &gnnPipe{
		graph: s.graph, model: chunkModels[s.spec.Model](s.spec.Layers), chunk: s.chunk, chunks: s.chunks,
		period: s.options.HistoryPeriod,
		scale:  1, keep: s.options.StaleGradients == axis.Keep,
	}
	if s.options.StaleGradients == axis.DropScale {
		p.scale = 2
	}
	return p
}

// inOrder is so many chunks in the fixed order.
func inOrder(chunks int) []int {
	order := make([]int, chunks)
	for i := range order {
		order[i] = i
	}
	return order
}

// tolerance bounds the rounding of single precision, relative to the largest number.
const tolerance = 2e-5

// emptyFirst leaves the first chunk without vertices.
func (s *staged) emptyFirst() {
	for v, c := range s.chunk {
		s.chunk[v] = max(c, 1)
	}
}

// check compares epochs in the fixed order with their definition.
func (s *staged) check(t *testing.T, got []outcome) {
	t.Helper()
	p := s.definition()
	for i, o := range got {
		w := s.weights[i]
		if i == 0 && s.options.HistoryStart == axis.Warm {
			p.warm(w)
		}
		f, want := p.epoch(1+i, w, inOrder(p.chunks))
		what := fmt.Sprintf("epoch %d", 1+i)
		alike(t, what+", loss", oneTensor(number(o.loss)), oneTensor(number(f.loss)), tolerance)
		alike(t, what, o.grads, want, tolerance)
		alike(t, what+", inference", oneTensor(o.logits), oneTensor(p.whole().forward(w, []int{0}).logits),
			tolerance)
	}
}

// oneTensor names a single tensor.
func oneTensor(m *reference.Matrix) tensors { return tensors{"the number": m} }

func number(x float64) *reference.Matrix {
	return &reference.Matrix{Rows: 1, Cols: 1, Data: []float64{x}}
}

func closeTo(got, want tensors) bool {
	d, _ := distance(got, want)
	return d <= tolerance
}

// bitwise compares two trainings bit by bit.
func bitwise(t *testing.T, what string, got, want []outcome) {
	t.Helper()
	for i := range want {
		alike(t, fmt.Sprintf("%s, epoch %d", what, 1+i), got[i].grads, want[i].grads, 0)
		if got[i].loss != want[i].loss || !slices.Equal(got[i].logits.Data, want[i].logits.Data) {
			t.Errorf("%s, epoch %d: a loss of %v, want %v, or other logits", what, 1+i,
				got[i].loss, want[i].loss)
		}
	}
}
