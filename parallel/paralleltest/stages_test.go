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
				Stage: func(model string, vertices, hidden int) train.Traffic {
					state := 1
					if model == "gcnii" { // h0 travels with h
						state = 2
					}
					return train.Traffic{Bytes: 2 * 4 * int64(state*vertices*hidden), Messages: 2 * int64(state*partitions)}
				},
			})
		})
	}
}

// stage is the pipeline axis without chunks: a worker holds consecutive blocks for all vertices; h, and h0
// where there is one, go to the next stage, and their gradients come back.
type stage struct {
	engine.Config
	from, to int // the blocks that are here
	graph    *sar.Partition
	features *engine.Features // of the first stage
	params   *nn.Params
	model    gnn.Model
	reducer  *engine.Reducer
}

func newStage(c engine.Config) (engine.Engine, error) {
	g, err := sar.New(c.Team, c.Groups, c.Share, c.Order, sar.Options{})
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

func (s *stage) Vertices() []int32 {
	if s.last() {
		return s.graph.Vertices()
	}
	return []int32{}
}

func (s *stage) Train(epoch int) (loss float64) {
	s.graph.BeginEpoch(epoch)
	exchange.Must(s.reducer.Beside(func(l *autograd.Ledger) {
		t := autograd.NewTrainingTape(s.Team, autograd.Random{Seed: s.Seed, Epoch: epoch})
		t.Ledger = l
		in := s.input(t)
		out := s.model.Forward(in)
		roots := make([]autograd.Root, len(out.Vars()))
		if s.last() {
			roots[0].Var = out.H
			loss, roots[0].Grad = s.Loss(out.H)
		} else {
			for _, v := range out.Vars() {
				s.send(v.Value(), +1)
			}
			for i, v := range out.Vars() {
				roots[i] = autograd.Root{Var: v, Grad: s.receive(tensor.Gradients, v.Cols(), +1)}
			}
		}
		t.Backward(roots...)
		if !s.first() {
			for _, v := range in.Vars() {
				dx := v.TakeGrad()
				s.send(dx, -1)
				dx.Release()
			}
		}
	}))
	return loss
}

func (s *stage) Infer(without int) *autograd.Var {
	t := autograd.NewTape(s.Team)
	out := s.model[:min(s.to, len(s.Blocks)-without)-s.from].Forward(s.input(t))
	if s.last() {
		return out.Output()
	}
	for _, v := range out.Vars() {
		s.send(v.Value(), +1)
		v.Drop()
	}
	none := t.New(0, s.Blocks[len(s.Blocks)-without-1].Out)
	return t.Received(none, &autograd.RowSet{Total: s.graph.Rows().Total})
}

// input is what the blocks here begin with.
func (s *stage) input(t *autograd.Tape) (in gnn.State) {
	if s.first() {
		return gnn.State{H: s.features.On(t)}
	}
	received := func(width int) *autograd.Var {
		return t.Received(s.receive(tensor.Activations, width, -1), s.graph.Rows())
	}
	in.H = received(s.Blocks[s.from].In)
	if width := s.Blocks[s.from].H0; width > 0 {
		in.H0 = received(width)
	}
	return in
}

func (s *stage) send(m *tensor.Matrix, to int) {
	exchange.Must(s.Groups.Stages.Send(comm.Stage, m.Bytes(), s.Groups.Stage+to).Wait())
}

func (s *stage) receive(kind tensor.Kind, cols, from int) *tensor.Matrix {
	m := s.Team.Memory.New(kind, s.graph.Rows().Here, cols)
	exchange.Must(s.Groups.Stages.Receive(comm.Stage, m.Bytes(), s.Groups.Stage+from).Wait())
	return m
}
