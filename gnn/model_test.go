package gnn_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/tensor"
	"weft/train/paralleltest"
)

// spec returns a model of four layers with every optional part of a block.
func spec(model string) gnn.Spec {
	s := gnn.Spec{
		Model: model, Layers: 4, Hidden: 12, Heads: 3, OutputHeads: 1, Norm: "layer",
		Activation: "elu", Residual: true,
		Direction: "both", Dropout: .5, InputDropout: .2, AttentionDropout: .1, Alpha: .2, Theta: .7,
	}
	switch kind, _ := gnn.KindOf(model); {
	case kind.OneDirection:
		s.Direction = "out"
	case kind.EdgeFeatures:
		s.Direction = "in"
	}
	return s
}

// edgeColumns is the number of columns of edge features.
const edgeColumns = 4

// forms returns all models in all their forms.
func forms() (specs []gnn.Spec) {
	for _, name := range gnn.Names() {
		s := spec(name)
		specs = append(specs, s)
		if kind, _ := gnn.KindOf(name); kind.ResidualBlocks() {
			s.BlockForm = "residual"
			specs = append(specs, s)
		}
		if s.Uses("aggregation") {
			s.Aggregation = "max"
			specs = append(specs, s)
		}
		if s.Uses("jk") {
			s.Jump, s.Aggregation = "cat", ""
			specs = append(specs, s)
			s.Jump = "max"
			specs = append(specs, s)
			s.Jump = ""
		}
		if s.Uses("bases") {
			bases, blocks := s, s
			bases.Bases, blocks.NumBlocks = 2, 1
			specs = append(specs, bases, blocks)
		}
		if s.Uses("shared-weights") {
			s.SharedWeights = true
			specs = append(specs, s)
		}
	}
	for _, name := range gnn.Decouplable() {
		specs = append(specs, decoupled(name))
	}
	return specs
}

// decoupled returns the decoupled form of a model, with every optional part.
func decoupled(model string) gnn.Spec {
	s := spec(model)
	s.Decoupled, s.Direction, s.Teleport = true, "out", .1
	return s
}

// TestOnly: a model for one relation refuses a graph with several, and names them.
func TestOnly(t *testing.T) {
	if got := (gnn.Env{Schema: gnn.OneType(1, 0)}).Only(); got != "edge" {
		t.Errorf("%q", got)
	}
	defer func() {
		if got, want := recover(), `gnn: a model for one relation, and a graph with ["cites" "writes"]`; got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}()
	gnn.Schema{Relations: []gnn.Relation{{Name: "cites"}, {Name: "writes"}}}.Only()
}

// TestPartsOfAModel: a model that is built in two parts has the same parameters and initial values as one
// that is built whole, wherever it is cut. The two parts, one after the other, compute the same as the whole.
func TestPartsOfAModel(t *testing.T) {
	const features, classes, vertices = 5, 3, 7
	e := graph.Edges{Source: []int32{0, 1, 2, 3, 5, 5, 2, 2}, Target: []int32{1, 0, 0, 4, 4, 5, 6, 6}}
	e.FeatureColumns, e.Features = edgeColumns, []float32{31: 1}
	dataset := paralleltest.GraphOf(t, vertices, e)
	for _, s := range forms() {
		name := fmt.Sprintf("%s (decoupled: %v, blocks: %q)", s.Model, s.Decoupled, s.BlockForm)
		blocks, err := s.Blocks(gnn.OneType(features, edgeColumns), classes)
		require.NoError(t, err)
		type part struct {
			model  gnn.Model
			params *nn.Params
		}
		team := kerneltest.Team(t, 1, tensor.NewMeter())
		g := paralleltest.Whole(t, team, dataset)
		build := func(from, to int) part {
			params := nn.NewParams(team, 7)
			return part{gnn.Build(blocks, from, to, over(g, params)), params}
		}
		x := team.Memory.New(tensor.Features, vertices, features)
		for i := range x.Floats() {
			x.Floats()[i] = float32(i%11) - 5
		}
		start := func() gnn.State {
			t := autograd.NewTrainingTape(team, autograd.Random{Seed: 1, Epoch: 2})
			return gnn.StateOf(t.Constant(x, g.Rows()))
		}
		whole := build(0, len(blocks))
		want := slices.Clone(whole.model.Forward(start()).Rows[0].Value().Floats())
		layers := map[string]int{}
		for _, p := range whole.params.List {
			layers[p.Name] = p.Layer
		}
		for cut := 1; cut < len(blocks); cut++ {
			front, back := build(0, cut), build(cut, len(blocks))
			state := front.params.State()
			maps.Copy(state, back.params.State())
			if got, want := fmt.Sprint(state), fmt.Sprint(whole.params.State()); got != want {
				t.Errorf("%s cut before block %d has other initial values", name, cut)
			}
			for _, p := range append(front.params.List, back.params.List...) {
				if p.Layer != layers[p.Name] {
					t.Errorf("%s cut before block %d: %s is of layer %d, want %d", name, cut, p.Name,
						p.Layer, layers[p.Name])
				}
			}
			between := front.model.Forward(start())
			if width := blocks[cut].H0; (between.H0 == nil) != (width == 0) ||
				width > 0 && between.H0.Cols() != width {
				t.Errorf(
					"%s cut before block %d: the initial residual is %v, and has %d columns by the block",
					name, cut, between.H0, width)
			}
			if got := back.model.Forward(between).Rows[0].Value().Floats(); !slices.Equal(got, want) {
				t.Errorf("%s cut before block %d: %v, want %v", name, cut, got, want)
			}
		}
		team.Memory.Close()
	}
}

// carrier is a block that keeps its first output as initial residual: a toy GCNII.
type carrier struct{ first, last bool }

func (c carrier) Forward(s gnn.State) gnn.State {
	h := autograd.Scale(2, s.Rows[0])
	switch {
	case c.first:
		return gnn.State{Rows: []*autograd.Var{autograd.Scale(3, h)}, H0: h}
	case c.last:
		return gnn.StateOf(autograd.Combine(1, s.H0, 1, h))
	}
	return gnn.State{Rows: []*autograd.Var{autograd.Combine(1, s.H0, 1, h)}, H0: s.H0}
}

// TestInitialResidual: the initial residual lives while later blocks read it, and is released after the last
// of them. Its gradient is the sum over its readers.
func TestInitialResidual(t *testing.T) {
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	m := gnn.Model{carrier{first: true}, carrier{}, carrier{last: true}}
	x := team.Memory.New(tensor.Features, 1, 1)
	x.Floats()[0] = 1
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	in := tape.Input(x, autograd.AllHere(1))
	out := m.Forward(gnn.StateOf(in)).Output()
	// h0 = 2x; h1 = 3·h0; h2 = h0 + 2·h1; h3 = h0 + 2·h2 = 3·h0 + 4·h1 = 15·h0
	if got := out.Value().Floats()[0]; got != 30 {
		t.Errorf("output %v, want 30", got)
	}
	g := team.Memory.New(tensor.Gradients, 1, 1)
	g.Floats()[0] = 1
	tape.Backward(autograd.Root{Var: out, Grad: g})
	d := in.TakeGrad()
	if got := d.Floats()[0]; got != 30 {
		t.Errorf("gradient %v, want 30", got)
	}
	d.Release()
	plain := autograd.NewTape(team)
	plain.Scope(func() *autograd.Var {
		m.Forward(gnn.StateOf(plain.Constant(x, autograd.AllHere(1)))).Output()
		return nil
	})
	if live := team.Memory.Live(tensor.Activations) + team.Memory.Live(tensor.Gradients); live != 0 {
		t.Errorf("%d bytes live after the passes", live)
	}
}

// TestDepthIsTwoTensors: for its backward pass, a layer of a deep model keeps two tensors: one that its
// product reads, and one that its activation or norm reads.
func TestDepthIsTwoTensors(t *testing.T) {
	const vertices, width = 4096, 16
	dataset := paralleltest.GraphOf(t, vertices, ring(vertices, 2*vertices))
	for _, s := range []gnn.Spec{
		{Model: "gcnii", SharedWeights: true},
		{Model: "gcnii"},
		{Model: "resgcn"},
		{Model: "sage", Norm: "none", Residual: true},
	} {
		kept := func(layers int) int64 {
			team := kerneltest.Team(t, 1, tensor.NewMeter())
			defer team.Memory.Close()
			g := paralleltest.Whole(t, team, dataset)
			s.Layers, s.Hidden, s.Activation, s.Direction, s.Dropout, s.Alpha, s.Theta = layers, width,
				"relu", "in", .5, .1, .5
			if s.Norm == "" {
				s.Norm = "auto"
			}
			blocks, err := s.Blocks(gnn.OneType(width, 0), width)
			require.NoError(t, err)
			m := gnn.Build(blocks, 0, len(blocks), over(g, nn.NewParams(team, 7)))
			x := team.Zeros(tensor.Features, vertices, width)
			m.Forward(gnn.StateOf(autograd.NewTrainingTape(team, autograd.Random{}).Constant(x, g.Rows())))
			return team.Memory.Live(tensor.Activations)
		}
		each, size := (kept(9)-kept(5))/4, int64(4*vertices*width)
		if small := size / 4; each > 2*size+small { // rows' moments, combined weights
			t.Errorf("%s, shared weights %v: a layer keeps %d bytes, where its output has %d", s.Model,
				s.SharedWeights, each, size)
		}
	}
}
