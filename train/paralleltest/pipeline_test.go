package paralleltest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train"
	"weft/train/engine"
	"weft/train/setting"
)

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

// TestPipelineSumsWhatIsComplete: the replicas sum gradients of weights during the backward pass, but no
// gradient before every chunk has added to it. There are more gradients here than one all-reduce takes.
func TestPipelineSumsWhatIsComplete(t *testing.T) {
	s := newStaged(t, "gcn", Grid(2, 2, 1), 3)
	s.spec.Layers, s.spec.Hidden, s.epochs = 6, 400, 1
	s.check(t, s.train(t))
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
			alike(t, fmt.Sprintf("%s, all but %d blocks", Name(m), without), oneTensor(infer(m, 4, without)),
				oneTensor(want), tolerance)
		}
	})
}

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

// TestPipelineMismatch, 15: "a mismatch [of the order] must be detected, not hang". Workers compare
// everything that the order depends on, and all other common settings, before any row is sent. Chunks of
// equal size would not reveal a mismatch.
func TestPipelineMismatch(t *testing.T) {
	for name, differ := range map[string]func(c *engine.Config){
		"seed":    func(c *engine.Config) { c.Seed++ },
		"order":   func(c *engine.Config) { c.ChunkOrder = axis.Fixed },
		"cuts":    func(c *engine.Config) { c.Stage.Cuts = []int{0, 2, 3, 4} },
		"chunks":  func(c *engine.Config) { slices.Reverse(c.Stage.Chunks) },
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
				engine.Train(e, engine.Training(7, epoch), s.lossOf(e))()
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
