package paralleltest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train"
	"weft/train/engine"
	"weft/train/setting"
)

// staged is a model's training by the engine of a pipeline, epoch by epoch. Each epoch has given weights.
type staged struct {
	graph   *graph.Graph
	spec    gnn.Spec
	mesh    mesh.Mesh
	chunks  int     // of each partition
	of      []int32 // each vertex's partition
	chunk   []int32 // each vertex's chunk of its partition
	options axis.Options
	// recompute computes a chunk's forward pass again in its backward pass.
	recompute bool
	epochs    int
	// weights are the weights at the start of each epoch. nil: train draws new ones for every epoch.
	weights []tensors
	// wrap, unless nil, wraps each worker's transport.
	wrap func(comm.Transport) comm.Transport
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
		s.of, s.chunk = append(s.of, p), append(s.chunk, c)
	}
	return s
}

// workers runs do on each worker, with the configuration of its engine.
func (s *staged) workers(t testing.TB, do func(c engine.Config)) {
	t.Helper()
	blocks, err := s.spec.Blocks(sar.SchemaOf(partition.All(s.graph)), s.graph.Labels.Classes)
	require.NoError(t, err)
	cuts, err := gnn.Cut(blocks, s.mesh.Stages, s.graph.Vertices(), s.graph.Edges())
	require.NoError(t, err)
	Workers{Mesh: s.mesh, Graph: s.graph, Of: s.of, Wrap: s.wrap}.Run(t, func(c engine.Config) {
		c.Blocks, c.Seed, c.Training, c.Recompute = blocks, 7, true, s.recompute
		c.Options.Options = s.options
		c.Stage.Cuts, c.Stage.Count, c.Stage.Of = cuts, s.chunks,
			inPartitions(s.of, s.mesh.Partitions, s.chunk)
		do(c)
	})
	if t.Failed() {
		t.FailNow()
	}
}

// lossOf is the loss of an engine's output.
func (s *staged) lossOf(e engine.Engine) engine.Loss {
	return func(logits *autograd.Var) (float64, *tensor.Matrix) { return s.loss(e.Vertices(), logits) }
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
			grads: tensors{}, logits: reference.New(s.graph.Vertices(), s.graph.Labels.Classes),
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
			loss := engine.Train(e, engine.Training(7, 1+i), s.lossOf(e))
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
func (s *staged) loss(vertices []int32, logits *autograd.Var) (float64, *tensor.Matrix) {
	memory := logits.Tape().Team.Memory
	var rows, classes []int32
	for row := range logits.Rows() {
		v := int64(row)
		if vertices != nil {
			v = int64(vertices[row])
		}
		classes = append(classes, int32(s.graph.Labels.Class[v]))
		if slices.Contains(s.graph.Splits[0].Train, v) {
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
		float64(len(s.graph.Splits[0].Train)))
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

// TestPipelineIsItsDefinition tests properties 5, 6, 8, 9, 10 and 16 of the engine, by comparing its losses
// and gradients with the definition's. It has several numbers of stages, replicas and chunks, every treatment
// of stale gradients, a history from zeros or warm, with recomputation and without. The weights change in
// every epoch, so that the history of a wrong epoch shows. Inference after each epoch is exact. Each of these
// runs with the models of its line.
func TestPipelineIsItsDefinition(t *testing.T) {
	eachChunkedModel(t, func(t *testing.T, model string) {
		t.Parallel()
		lines := 0
		const some, others = "gat gcnii", "gcn sage resgcn"
		for _, v := range []struct {
			name   string
			mesh   mesh.Mesh
			chunks int
			models string
			set    string          // settings by name
			change func(s *staged) // nil: nothing
		}{
			{"one chunk", Grid(2, 1, 1), 1, some, "", nil},
			{"two chunks", Grid(2, 1, 1), 2, others, "", nil},
			{"five chunks", Grid(3, 1, 1), 5, some, "", nil},
			{"a chunk for each way", Grid(2, 2, 1), 1, others, "", nil},
			{"five chunks for each way", Grid(2, 2, 1), 5, some, "", nil},
			{"three replicas", Grid(3, 3, 1), 4, others, "", nil},
			{"gradients dropped", Grid(2, 1, 1), 5, some, "stale-gradients=drop", nil},
			{"gradients kept", Grid(2, 1, 1), 5, others, "stale-gradients=keep history-period=3", nil},
			{"gradients kept, two replicas", Grid(2, 2, 1), 3, some, "stale-gradients=keep", nil},
			{"warm", Grid(2, 1, 1), 4, others, "history-start=warm", nil},
			{"warm, two replicas", Grid(3, 2, 1), 3, some, "history-start=warm history-period=1", nil},
			{"nothing recomputed", Grid(3, 1, 1), 4, others, "recompute=none", nil},
			{
				"nothing recomputed, gradients kept", Grid(2, 2, 1), 4, some,
				"recompute=none stale-gradients=keep", nil,
			},
			{"a chunk without vertices", Grid(2, 1, 1), 4, others, "", (*staged).emptyFirst},
			{"sparse features", Grid(2, 2, 1), 3, some, "", func(s *staged) { sparsely(s.graph) }},
			{"one chunk, slices", Grid(2, 1, 2), 1, others, "", nil},
			{"five chunks, slices", Grid(3, 1, 3), 5, some, "", nil},
			{"gradients kept, slices of two replicas", Grid(2, 2, 2), 3, others, "stale-gradients=keep", nil},
			{
				"warm, more slices than columns, a chunk without vertices", Grid(2, 1, 11), 4, some,
				"history-start=warm", (*staged).emptyFirst,
			},
			{"nothing recomputed, slices", Grid(2, 2, 3), 3, others, "recompute=none", nil},
		} {
			models := strings.Fields(v.models)
			if k := slices.IndexFunc(models, func(m string) bool { return chunkModels[m] == nil }); k >= 0 {
				t.Fatalf("%s: there is no model %s", v.name, models[k])
			}
			if !slices.Contains(models, model) {
				continue
			}
			lines++
			t.Run(v.name, func(t *testing.T) {
				s := newStaged(t, model, v.mesh, v.chunks)
				o := with(train.Options{Options: s.options, Recompute: setting.RecomputeBlocks}, v.set)
				s.options, s.recompute = o.Options, o.Recompute == setting.RecomputeBlocks
				if v.change != nil {
					v.change(s)
				}
				s.check(t, s.train(t))
			})
		}
		if lines == 0 {
			t.Error("no line has the model")
		}
	})
}

// emptyFirst leaves the first chunk without vertices.
func (s *staged) emptyFirst() {
	for v, c := range s.chunk {
		s.chunk[v] = max(c, 1)
	}
}

// TestPipelineSumsWhatIsComplete: the replicas sum gradients of weights during the backward pass, but no
// gradient before every chunk has added to it. There are more gradients here than one all-reduce takes.
func TestPipelineSumsWhatIsComplete(t *testing.T) {
	s := newStaged(t, "gcn", Grid(2, 2, 1), 3)
	s.spec.Layers, s.spec.Hidden, s.epochs = 6, 400, 1
	s.check(t, s.train(t))
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
		alike(t, what+", loss", of(number(o.loss)), of(number(f.loss)), tolerance)
		alike(t, what, o.grads, want, tolerance)
		alike(t, what+", inference", of(o.logits), of(p.whole().forward(w, []int{0}).logits), tolerance)
	}
}

// of names one tensor.
func of(m *reference.Matrix) tensors { return tensors{"the number": m} }

func number(x float64) *reference.Matrix {
	return &reference.Matrix{Rows: 1, Cols: 1, Data: []float64{x}}
}

// TestPipelineShuffles, 15: "all stages of a way compute the same permutation" (a way is a replica). Each
// epoch's gradients are those of one order of the chunks. The order differs between epochs and between seeds.
func TestPipelineShuffles(t *testing.T) {
	s := newStaged(t, "gcnii", Grid(3, 2, 1), 4)
	s.options.ChunkOrder, s.epochs = axis.Shuffle, 6
	p, seen := s.definition(), map[string]bool{}
	for i, o := range s.train(t) {
		w := s.weights[i]
		var matching [][]int
		for _, order := range permutations(s.chunks) {
			trial := *p
			if _, grads := trial.epoch(1+i, w, order); closeTo(o.grads, grads) {
				matching = append(matching, order)
			}
		}
		if len(matching) != 1 {
			t.Fatalf("epoch %d: the gradients are those of the orders %v", 1+i, matching)
		}
		p.epoch(1+i, w, matching[0])
		seen[fmt.Sprint(matching[0])] = true
	}
	if len(seen) < 3 {
		t.Errorf("%d epochs had the orders %v", s.epochs, slices.Collect(maps.Keys(seen)))
	}
}

// permutations are all orders of n chunks.
func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{{}}
	}
	for _, rest := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return all
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

// eachModel runs a test for every model, with dropout wherever a model has it, and for some of their forms.
// It numbers them, so that a test can share its meshes among them.
func eachModel(t *testing.T, test func(t *testing.T, number int, spec gnn.Spec)) {
	forms := map[string]gnn.Spec{}
	for _, model := range gnn.Names() {
		// several blocks aggregate
		if kind, _ := gnn.KindOf(model); !kind.Uses("rounds") || kind.Uses("decoupled") {
			forms[model] = chunkedSpec(model)
		}
	}
	form := func(name, model string, set func(s *gnn.Spec)) {
		s := chunkedSpec(model)
		set(&s)
		forms[name] = s
	}
	form("gcn in both directions", "gcn", func(s *gnn.Spec) { s.Direction, s.Norm = "both", "layer" })
	form("gat against the edges", "gat", func(s *gnn.Spec) { s.Direction, s.Residual = "out", true })
	form("sage in residual blocks", "sage", func(s *gnn.Spec) { s.BlockForm, s.Norm = "residual", "layer" })
	form("gcn that jumps", "gcn", func(s *gnn.Spec) { s.Jump, s.Norm, s.Residual = "cat", "layer", true })
	form("gat that jumps", "gat", func(s *gnn.Spec) { s.Jump = "max" })
	form("gcnii of separate weights", "gcnii", func(s *gnn.Spec) { s.SharedWeights = false })
	for i, name := range slices.Sorted(maps.Keys(forms)) {
		t.Run(name, func(t *testing.T) {
			spec := forms[name]
			spec.Layers, spec.Hidden = 4, 10
			spec.Dropout, spec.InputDropout, spec.AttentionDropout, spec.TransformDropout = .4, .2, .3, .2
			test(t, i, spec)
		})
	}
}

// TestPipelineStages, 3: "for fixed K, order, seed, P — weights after n epochs are bit-identical for S=2,4,8:
// stage cuts move data, not math." And 14: "results identical with recomputation on/off incl. dropout>0".
// Each model is on one of the meshes, in turn.
func TestPipelineStages(t *testing.T) {
	meshes := [][]mesh.Mesh{
		{Grid(2, 1, 1), Grid(3, 1, 1), Grid(4, 1, 1)},
		{Grid(2, 2, 1), Grid(3, 2, 1)},
		{Grid(2, 1, 2), Grid(3, 1, 2)},
	}
	eachModel(t, func(t *testing.T, number int, spec gnn.Spec) {
		var want []outcome
		train := func(m mesh.Mesh, recompute bool) {
			s := newStaged(t, spec.Model, m, 3)
			s.spec, s.options.ChunkOrder, s.epochs, s.recompute = spec, axis.Shuffle, 3, recompute
			got := s.train(t)
			if want == nil {
				want = got
			}
			bitwise(t, fmt.Sprintf("%s, recomputed %v", Name(m), recompute), got, want)
		}
		for _, m := range meshes[number%len(meshes)] {
			train(m, true)
		}
		train(meshes[number%len(meshes)][0], false)
	})
}

// TestPipelineInfers: inference, of the whole model and of all but its last block, is one worker's for any
// chunks.
func TestPipelineInfers(t *testing.T) {
	eachModel(t, func(t *testing.T, _ int, spec gnn.Spec) {
		infer := func(m mesh.Mesh, chunks, without int) *reference.Matrix {
			s := newStaged(t, spec.Model, m, chunks)
			s.spec = spec
			var mu sync.Mutex
			var all *reference.Matrix
			s.run(t, func(_ engine.Config, e engine.Engine) {
				x := e.Infer(without)
				defer x.Drop()
				mu.Lock()
				defer mu.Unlock()
				if all == nil {
					all = reference.New(s.graph.Vertices(), x.Cols())
				}
				placeRows(all, e.Vertices(), x.Value())
			})
			return all
		}
		for without := range 2 {
			want := infer(mesh.One, 1, without)
			m := Grid(3, 2, 1+without)
			alike(t, fmt.Sprintf("%s, all but %d blocks", Name(m), without), of(infer(m, 4, without)),
				of(want), tolerance)
		}
	})
}

// placeRows writes a worker's rows to the places of their vertices.
func placeRows(all *reference.Matrix, vertices []int32, part *tensor.Matrix) {
	for row := range part.Rows {
		v := row
		if vertices != nil {
			v = int(vertices[row])
		}
		for k, x := range part.Floats()[row*part.Cols : (row+1)*part.Cols] {
			all.Set(v, k, float64(x))
		}
	}
}

// TestPipelineSchedule, 4: "result independent of goroutine timing; run with -race and random delays". Each
// worker's messages are delayed at random, before they are sent and before they are complete.
func TestPipelineSchedule(t *testing.T) {
	s := newStaged(t, "gcnii", Grid(3, 2, 2), 4)
	s.spec.Dropout, s.options.ChunkOrder = .4, axis.Shuffle
	want := s.train(t)
	for seed := range uint64(4) {
		s.wrap = func(tr comm.Transport) comm.Transport {
			return &delayed{Transport: tr, random: rand.New(rand.NewPCG(seed, uint64(tr.Rank())))}
		}
		bitwise(t, fmt.Sprintf("delays of seed %d", seed), s.train(t), want)
	}
}

// delayed delays messages: other goroutines run before a message is complete, at random for longer than they
// have work.
type delayed struct {
	comm.Transport
	mu     sync.Mutex
	random *rand.Rand
}

// Send delays in a goroutine of its own. Messages of one tag keep their order.
func (d *delayed) Send(data []byte, to, tag int) comm.Request {
	return d.late(d.Transport.Send(data, to, tag))
}

// Receive delays like Send.
func (d *delayed) Receive(data []byte, from, tag int) comm.Request {
	return d.late(d.Transport.Receive(data, from, tag))
}

func (d *delayed) late(r comm.Request) comm.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &lateRequest{Request: r, done: make(chan struct{})}
	n := 1 << d.random.IntN(11)
	for range d.random.IntN(50) {
		runtime.Gosched()
	}
	go func() {
		<-r.Done()
		for range n {
			runtime.Gosched()
		}
		close(l.done)
	}()
	return l
}

type lateRequest struct {
	comm.Request
	done chan struct{}
}

// Done is closed after the transport's Done.
func (l *lateRequest) Done() <-chan struct{} { return l.done }

// TestPipelineVolume, 11 and 12: "counted bytes equal 2(S−1)NH·4 (GCNII ×2), weight sync 0; graph 2·L·M·H·4;
// independent of K, L (pipeline), order. Per boundary N·H·4 each direction; last/first stage send only one
// direction", and "messages: per boundary K forward + K backward (×2 with h0)".
func TestPipelineVolume(t *testing.T) {
	for _, model := range []string{"gcn", "gcnii", "resgcn"} {
		for _, c := range []struct{ stages, replicas, chunks, layers int }{
			{2, 1, 4, 4},
			{4, 1, 4, 4},
			{2, 1, 7, 4},
			{3, 1, 4, 9},
			{2, 2, 3, 4},
		} {
			s := newStaged(t, model, Grid(c.stages, c.replicas, 1), c.chunks)
			s.spec.Layers, s.epochs = c.layers, 2
			state := int64(1)
			if model == "gcnii" {
				state = 2
			}
			filled := make([]map[int32]bool, c.replicas) // chunks that send something
			rows := make([]int64, c.replicas)
			for v, p := range s.of {
				if filled[p] == nil {
					filled[p] = map[int32]bool{}
				}
				filled[p][s.chunk[v]] = true
				rows[p]++
			}
			for i, o := range s.train(t) {
				halo := comm.Traffic{}
				for rank, got := range o.sent {
					at := s.mesh.Place(rank)
					directions := int64(2)
					if at.Stage == 0 || at.Stage == c.stages-1 {
						directions = 1
					}
					want := comm.Traffic{
						Bytes:    directions * state * rows[at.Partition] * int64(s.spec.Hidden) * 4,
						Messages: directions * state * int64(len(filled[at.Partition])),
					}
					if got.stage != want {
						t.Errorf("%s, %+v, epoch %d, rank %d: sent %+v to other stages, want %+v", model, c,
							1+i, rank, got.stage, want)
					}
					if c.replicas == 1 && (got.gradient.Bytes > 0 || got.halo.Bytes > 0) {
						t.Errorf("%s, %+v: one way sent %+v", model, c, got)
					}
					halo.Bytes += got.halo.Bytes
				}
				if want := s.mirrors() * s.haloColumns() * 2 * 4; halo.Bytes != want {
					t.Errorf("%s, %+v: replicas sent %d bytes to each other, want %d", model,
						c, halo.Bytes, want)
				}
			}
		}
	}
}

// TestSlicedPipelineVolume: slices of chunks send between stages what one slice sends. Each chunk has six
// all-to-alls for each layer: two in the forward pass, two in its recomputation and two in the backward pass.
// In one a worker sends its own rows of the chunk, without its own columns.
func TestSlicedPipelineVolume(t *testing.T) {
	const stages, slices, chunks = 2, 3, 4
	for model, state := range map[string]int64{"gcn": 1, "gcnii": 2} {
		s := newStaged(t, model, Grid(stages, 1, slices), chunks)
		s.epochs = 1
		var sizes [chunks]int
		for _, k := range s.chunk {
			sizes[k]++
		}
		want, columns := comm.Traffic{}, s.spec.Hidden
		for k, n := range sizes {
			for i := range slices {
				owner := (i + k) % slices // the remainders of the chunks spread
				rows, own := n*(i+1)/slices-n*i/slices, columns*(owner+1)/slices-columns*owner/slices
				want.Bytes += 6 * 4 * int64(s.spec.Layers*rows*(columns-own))
			}
		}
		var stage, layout comm.Traffic
		for _, got := range s.train(t)[0].sent {
			stage.Bytes += got.stage.Bytes
			layout.Bytes += got.layout.Bytes
		}
		if all := 2 * (stages - 1) * state * int64(s.graph.Vertices()*columns) * 4; stage.Bytes != all {
			t.Errorf("%s: %d bytes between stages, want %d", model, stage.Bytes, all)
		}
		if layout != want {
			t.Errorf("%s: %d bytes between slices, want %d", model, layout.Bytes, want.Bytes)
		}
	}
}

// mirrors is the number of vertices that other replicas read, once for each replica.
func (s *staged) mirrors() int64 {
	needed, e := map[[2]int32]bool{}, s.graph.Relations[0].Edges()
	for k, u := range e.Source {
		if to := s.of[e.Target[k]]; to != s.of[u] {
			needed[[2]int32{u, to}] = true
		}
	}
	return int64(len(needed))
}

// haloColumns is the number of columns of all aggregations. They aggregate embeddings, in the last layer too.
func (s *staged) haloColumns() int64 { return int64(s.spec.Layers * s.spec.Hidden) }

// TestPipelineConverges, 8: "frozen weights, no dropout: the loss becomes exactly the full-graph loss after ≤
// L epochs for P=1 and L·P for period P", up to the rounding of single precision.
func TestPipelineConverges(t *testing.T) {
	for _, period := range []int{1, 2} {
		s := newStaged(t, "gcnii", Grid(2, 1, 1), 4)
		s.options.HistoryPeriod, s.options.ChunkOrder, s.epochs = period, axis.Shuffle, s.spec.Layers*period+2
		w := drawnTensors(t, s.graph, s.spec, 1)
		s.weights = slices.Repeat([]tensors{w}, s.epochs)
		exact := s.definition().whole().forward(w, []int{0}).loss
		got := s.train(t)
		for i, o := range got {
			if d := o.loss/exact - 1; i >= s.spec.Layers*period && (d > 1e-6 || d < -1e-6) ||
				i == 0 && d < 1e-4 && d > -1e-4 {
				t.Errorf("period %d, epoch %d: a loss of %v, exact is %v", period, 1+i, o.loss, exact)
			}
		}
	}
}

// TestPipelineSlots, 17: "idle slots per stage = 2(S−1) of 2(K+S−1)". A chunk's work takes one slot forward
// and one backward. Messages count the slots. Work ends in the slot in which its result is sent. It begins
// one slot after its input was sent, or after the stage finished the previous chunk.
func TestPipelineSlots(t *testing.T) {
	for _, c := range []struct{ stages, chunks int }{{2, 1}, {2, 8}, {3, 5}, {4, 16}} {
		s := newStaged(t, "gcn", Grid(c.stages, 1, 1), c.chunks)
		s.spec.Layers, s.epochs = c.stages, 1
		times := &slots{at: make([]int, c.stages), sent: map[lane]int{}, asked: map[lane]int{}}
		s.wrap = func(tr comm.Transport) comm.Transport { return &slotted{tr, times, map[lane]int{}} }
		var got []int
		s.trained = func(e engine.Config) {
			times.mu.Lock()
			defer times.mu.Unlock()
			got = append(got, times.at[e.Groups.Stage])
		}
		s.train(t)
		if last, want := slices.Max(got), 2*(c.chunks+c.stages-1); last != want {
			t.Errorf("%d stages, %d chunks: the pass takes %d slots, want %d", c.stages, c.chunks, last, want)
		}
	}
}

// slots are the times of messages between stages.
type slots struct {
	mu   sync.Mutex
	at   []int        // each stage's time
	sent map[lane]int // when a message was sent
	// asked is when the receiver was ready for the message.
	asked map[lane]int
}

// lane identifies a message: the number-th message from a stage to another.
type lane struct{ from, to, number int }

// slotted counts the slots of a stage.
type slotted struct {
	comm.Transport
	*slots
	count map[lane]int // of messages, by lanes of number 0
}

func (s *slotted) next(from, to int) lane {
	l := lane{from: from, to: to}
	s.count[l]++
	l.number = s.count[l]
	return l
}

// Send ends a slot of work.
func (s *slotted) Send(data []byte, to, tag int) comm.Request {
	if comm.KindOf(tag) != comm.Stage {
		return s.Transport.Send(data, to, tag)
	}
	me, l := s.Rank(), s.next(s.Rank(), to)
	s.mu.Lock()
	s.at[me]++
	s.sent[l] = s.at[me]
	s.mu.Unlock()
	return &slot{
		Request: s.Transport.Send(data, to, tag), slots: s.slots,
		waited: func() { s.at[me] = max(s.at[me], s.asked[l]) },
	}
}

// Receive begins a slot of work when it is waited for. The last stage does not send the result.
func (s *slotted) Receive(data []byte, from, tag int) comm.Request {
	if comm.KindOf(tag) != comm.Stage {
		return s.Transport.Receive(data, from, tag)
	}
	me, l := s.Rank(), s.next(from, s.Rank())
	s.mu.Lock()
	s.asked[l] = s.at[me]
	s.mu.Unlock()
	return &slot{Request: s.Transport.Receive(data, from, tag), slots: s.slots, waited: func() {
		s.at[me] = max(s.at[me], s.sent[l])
		if me == 0 || me == s.Size()-1 {
			s.at[me]++
		}
	}}
}

// slot is a message that advances its worker's slot when it is waited for.
type slot struct {
	comm.Request
	*slots
	waited func()
	once   sync.Once
}

// Err is asked for once the message was waited for.
func (r *slot) Err() error {
	r.once.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waited()
	})
	return r.Request.Err()
}

// TestPipelineMismatch, 15: "a mismatch [of the order] must be detected, not hang". Workers compare
// everything that the order depends on, and all other common settings, before any row is sent. Chunks of
// equal size would not reveal a mismatch.
func TestPipelineMismatch(t *testing.T) {
	for name, differ := range map[string]func(c *engine.Config){
		"seed":    func(c *engine.Config) { c.Seed++ },
		"order":   func(c *engine.Config) { c.ChunkOrder = axis.Fixed },
		"cuts":    func(c *engine.Config) { c.Stage.Cuts = []int{0, 2, 3, 4} },
		"chunks":  func(c *engine.Config) { slices.Reverse(c.Stage.Of) },
		"history": func(c *engine.Config) { c.HistoryPeriod++ },
		"start":   func(c *engine.Config) { c.HistoryStart = axis.Warm },
		"stale":   func(c *engine.Config) { c.StaleGradients = axis.Drop },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaged(t, "gcn", Grid(3, 1, 1), 5)
			s.options.ChunkOrder = axis.Shuffle
			s.workers(t, func(c engine.Config) {
				if c.Groups.Stage == 2 {
					differ(&c)
				}
				_, err := engine.New(c)
				var common *launch.Common
				if !errors.As(err, &common) || !refusal.Is(err) ||
					!strings.HasPrefix(err.Error(), "worker 2 has other stages, chunks, ") {
					t.Errorf("worker %d: %v", c.Groups.World.Rank(), err)
				}
			})
		})
	}
}

// TestPipelineWorkerFails: if a worker panics in the middle of a pass, of training or inference, every other
// worker's pass ends with a Failure. Nothing is left behind.
func TestPipelineWorkerFails(t *testing.T) {
	const never, broken = 1 << 30, "no more"
	s := newStaged(t, "gcnii", Grid(3, 2, 1), 4)
	s.options.HistoryStart = axis.Warm
	// run makes a worker panic in one of its kernel calls, and returns the number of its calls.
	run := func(rank, call int) (calls int) {
		var mu sync.Mutex
		outcomes := make([]any, s.mesh.Workers())
		s.run(t, func(c engine.Config, e engine.Engine) {
			me := c.Groups.World.Rank()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if outcomes[me] = recover(); outcomes[me] != nil {
					c.Groups.World.Abort(fmt.Errorf("worker %d: %v", me, outcomes[me]))
				}
			}()
			if me == rank {
				c.Team.Watch = func(_ kernel.Call, run func()) {
					if calls++; calls == call {
						panic(broken)
					}
					run()
				}
			}
			// Every worker has an engine before one fails, and none ends before that.
			exchange.Must(c.Groups.World.Barrier(comm.Setup))
			for epoch := 1; epoch <= 2; epoch++ {
				engine.Train(e, engine.Training(7, epoch), s.lossOf(e))
				e.Infer(0).Drop()
			}
			exchange.Must(c.Groups.World.Barrier(comm.Setup))
		})
		for other, o := range outcomes {
			f, failed := o.(exchange.Failure)
			switch {
			case call == never && o == nil:
			case other == rank && o == broken:
			case other == rank || !failed || !errors.Is(f, comm.ErrAborted):
				t.Errorf("worker %d breaks off in call %d: worker %d ends with %v", rank, call, other, o)
			}
		}
		return calls
	}
	for _, rank := range []int{0, 3, 4} {
		calls := run(rank, never)
		for part := range 8 {
			run(rank, 1+part*(calls-1)/7)
		}
	}
}
