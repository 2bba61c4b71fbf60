package paralleltest_test

import (
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train"
	"weft/train/engine"
)

// TestTwoStages: a model that is cut in two between its blocks, with one chunk, has the bits of one worker;
// with partitions in each stage it is as near to one worker as these alone.
func TestTwoStages(t *testing.T) {
	for partitions, tolerance := range map[int]float64{1: 0, 2: 2e-5} {
		m := mesh.Mesh{Stages: 2, Partitions: partitions, Slices: 1}
		t.Run(paralleltest.Name(m), func(t *testing.T) {
			paralleltest.Engines(t, paralleltest.Case{
				Mesh: m, Engine: newStage, Tolerance: tolerance,
				// 2·(S−1)·V·H elements (GNNPipe), as one message each way for each partition
				Stage: func(vertices, hidden int) train.Traffic {
					return train.Traffic{Bytes: 2 * 4 * int64(vertices*hidden), Messages: 2 * int64(partitions)}
				},
			})
		})
	}
}

// stage is the pipeline axis without chunks: a worker holds consecutive blocks for all vertices; h goes to
// the next stage, and its gradient comes back.
type stage struct {
	engine.Config
	from, to int // the blocks that are here
	graph    *sar.Partition
	features *engine.Features // of the first stage
	params   *nn.Params
	model    *gnn.Model
	reducer  *engine.Reducer
}

func newStage(c engine.Config) (engine.Engine, error) {
	g, err := sar.New(c.Team, c.Groups.Halo, c.Share, sar.Options{})
	if err != nil {
		return nil, err
	}
	n, k := len(c.Blocks), c.Groups.Mesh.Stages
	s := &stage{Config: c, from: n * c.Groups.Stage / k, to: n * (c.Groups.Stage + 1) / k, graph: g, params: nn.NewParams(c.Team, c.Seed)}
	if s.first() {
		s.features = engine.LoadFeatures(c, g)
	}
	s.model = gnn.Build(c.Blocks, s.from, s.to, gnn.Env{Params: s.params, Relations: g.Relations(), Propagators: g.Propagator})
	s.reducer = engine.NewReducer(c, s.params.List)
	return s, nil
}

func (s *stage) first() bool { return s.Groups.Stage == 0 }
func (s *stage) last() bool  { return s.Groups.Stage == s.Groups.Mesh.Stages-1 }

func (s *stage) Params() *nn.Params { return s.params }
func (s *stage) Explain() []string  { return s.graph.Explain() }
func (s *stage) EdgeColumns() int64 { return s.graph.EdgeColumns() }

func (s *stage) Vertices() []int32 {
	if s.last() {
		return s.graph.Vertices()
	}
	return []int32{}
}

func (s *stage) Train(epoch int) (loss float64) {
	s.graph.BeginEpoch(epoch)
	t := autograd.NewTrainingTape(s.Team, autograd.Random{Seed: s.Seed, Epoch: epoch})
	t.Ledger = s.reducer.Begin()
	defer s.reducer.Abandon()
	in := s.input(t)
	out := s.model.Forward(gnn.State{H: in}).H
	var g *tensor.Matrix
	if s.last() {
		loss, g = s.Loss(out)
	} else {
		s.send(out.Value(), +1)
		g = s.receive(tensor.Gradients, out.Rows(), out.Cols(), +1)
	}
	t.Backward(autograd.Root{Var: out, Grad: g})
	if !s.first() {
		dx := in.TakeGrad()
		s.send(dx, -1)
		dx.Release()
	}
	exchange.Must(s.reducer.Finish())
	return loss
}

func (s *stage) Infer(without int) *autograd.Var {
	t := autograd.NewTape(s.Team)
	out := s.model.Until(min(s.to, len(s.Blocks)-without)-s.from, s.input(t))
	if s.last() {
		return out
	}
	s.send(out.Value(), +1)
	out.Drop()
	none := t.New(0, s.Blocks[len(s.Blocks)-without-1].Out)
	return t.Received(none, &autograd.RowSet{Total: s.graph.Rows().Total})
}

// input is what the blocks here begin with.
func (s *stage) input(t *autograd.Tape) *autograd.Var {
	if s.first() {
		return s.features.On(t)
	}
	h := s.receive(tensor.Activations, s.graph.Rows().Here, s.Blocks[s.from].In, -1)
	return t.Received(h, s.graph.Rows())
}

func (s *stage) send(m *tensor.Matrix, to int) {
	exchange.Must(s.Groups.Stages.Send(comm.Stage, m.Bytes(), s.Groups.Stage+to).Wait())
}

func (s *stage) receive(kind tensor.Kind, rows, cols, from int) *tensor.Matrix {
	m := s.Team.Memory.New(kind, rows, cols)
	exchange.Must(s.Groups.Stages.Receive(comm.Stage, m.Bytes(), s.Groups.Stage+from).Wait())
	return m
}
