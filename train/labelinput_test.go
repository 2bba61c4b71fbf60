package train

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
)

// widened is a graph with the labels of the training vertices that show it as further features, dense. The
// other ones train.
func widened(g *graph.Graph, shows func(v int64) bool) *graph.Graph {
	wide, l := *g.Copy(), &g.Types[0].Labels
	split := g.Types[0].Splits[0]
	split.Train = nil
	wide.Types[0].Features = graph.Features{Columns: g.Types[0].Features.Columns + l.Classes}
	wide.Types[0].Features.Dense = make([]float32, g.Types[0].Count*wide.Types[0].Features.Columns)
	for v := range g.Types[0].Count {
		row := wide.Types[0].Features.Dense[v*wide.Types[0].Features.Columns:]
		if !g.Types[0].Features.Sparse() {
			copy(row, g.Types[0].Features.Row(v))
			continue
		}
		for k, x := range g.Types[0].Features.Row(v) {
			row[g.Types[0].Features.Indices[int(g.Types[0].Features.Indptr[v])+k]] = x
		}
	}
	for _, v := range g.Types[0].Splits[0].Train {
		row := wide.Types[0].Features.Row(int(v))[g.Types[0].Features.Columns:]
		switch {
		case !shows(v):
			split.Train = append(split.Train, v)
		case l.MultiLabel():
			for k, x := range l.Multi[int(v)*l.Classes : int(v+1)*l.Classes] {
				if x == 1 {
					row[k] = 1
				}
			}
		default:
			row[l.Class[v]] = 1
		}
	}
	wide.Types[0].Splits = []graph.Split{split}
	return &wide
}

// labelled are graphs whose labels and features are of each kind.
func labelled(t *testing.T) map[string]*graph.Graph {
	dense := tangle(t, 700, 3000)
	sparse, multi := *dense.Copy(), *dense.Copy()
	f, source := &sparse.Types[0].Features, &dense.Types[0].Features
	*f = graph.Features{Columns: source.Columns, Indptr: []int64{0}}
	for v := range dense.Types[0].Count {
		for k, x := range source.Row(v) {
			if (v+k)%3 == 0 && v%5 > 0 { // some rows are empty
				f.Indices, f.Data = append(f.Indices, int32(k)), append(f.Data, x)
			}
		}
		f.Indptr = append(f.Indptr, int64(len(f.Indices)))
	}
	multi.Types[0].Labels, multi.Metric = graph.Labels{Classes: 3}, ""
	for v, class := range dense.Types[0].Labels.Class {
		row := []float32{float32(class % 2), float32(class / 2 % 2), float32(v % 2)}
		if v%9 == 4 {
			row[2] = float32(math.NaN())
		}
		multi.Types[0].Labels.Multi = append(multi.Types[0].Labels.Multi, row...)
	}
	return map[string]*graph.Graph{"dense": dense, "sparse": &sparse, "weighted": dense, "multi": &multi}
}

// TestLabelInput: an epoch with labels as input is that on a graph which has the labels of the epoch as
// features, and whose other training vertices train. Predictions are those of a graph with all labels of
// training vertices as features. "We randomly mask some percentage of the training nodes' labels … and
// predict them" (Shi et al. 2021, section 3.2).
func TestLabelInput(t *testing.T) {
	for name, g := range labelled(t) {
		t.Run(name, func(t *testing.T) {
			o := apply(Defaults(), "model sage, hidden 12, dropout 0, epochs 1, threads 1, seed 5, "+
				"normalize-features none")
			if name == "weighted" {
				o.ClassWeights = filepath.Join(t.TempDir(), "weights")
				require.NoError(t, os.WriteFile(o.ClassWeights, []byte("1 2 .5 0 3\n"), 0o666))
			}
			with := o
			with.LabelInput = .4
			draw := nn.LabelInput{Probability: .4, Seed: 5}
			wide := widened(g, draw.Shows(1))
			if n, all := len(wide.Types[0].Splits[0].Train), len(g.Types[0].Splits[0].Train); n < all/2 ||
				n > 3*all/4 {
				t.Fatalf("%d of %d training vertices train", n, all)
			}
			got, want := run(t, g, with), run(t, wide, o)
			if d := away(want.Losses, got.Losses); d > 1e-6 {
				t.Errorf("loss %v, of the widened graph %v", got.Losses, want.Losses)
			}
			for path, w := range want.Weights {
				// Adam's first step is lr · sign, nearly
				if d := apart(w.Float32, got.Weights[path].Float32); !(d < 2e-4) {
					t.Errorf("%s differs by %v", path, d)
				}
			}
			shown := widened(g, draw.Shows(0))
			p, err := (&Job{Graph: g, Options: with}).Predict(context.Background(), got.Weights, Logits)
			require.NoError(t, err)
			q, err := (&Job{Graph: shown, Options: o}).Predict(context.Background(), got.Weights, Logits)
			require.NoError(t, err)
			if d := apart(q.Logits, p.Logits); !(d < 1e-5) {
				t.Errorf("logits differ by %v", d)
			}
			assert.Equal(t, got.Logits, p.Logits, "the run's logits are others than those of a prediction")
			some := []int32{650, 3, 12}
			job := Job{Graph: g, Options: with, Query: Query{Vertices: some}}
			s, err := job.Predict(context.Background(), got.Weights, Logits)
			require.NoError(t, err)
			for k, v := range some {
				if c := p.Classes; !slices.Equal(s.Logits[k*c:(k+1)*c], p.Logits[int(v)*c:int(v+1)*c]) {
					t.Errorf("vertex %d alone has other logits", v)
				}
			}
		})
	}
}

// apart is the largest difference of two lists of numbers.
func apart(a, b []float32) (d float64) {
	if len(a) != len(b) {
		return math.NaN()
	}
	for i := range a {
		d = max(d, math.Abs(float64(a[i]-b[i])))
	}
	return d
}

// TestLabelInputRefused: what has no such labels says so.
func TestLabelInputRefused(t *testing.T) {
	g := tangle(t, 700, 3000)
	bare, unlabelled, split := *g.Copy(), *g.Copy(), *g.Copy()
	bare.Types[0].Features = graph.Features{}
	unlabelled.Types[0].Labels, unlabelled.Types[0].Splits = graph.Labels{}, nil
	split.Types[0].Splits = nil
	for name, c := range map[string]struct {
		g      *graph.Graph
		change string
		want   string
	}{
		"pipeline": {g, "parallel pipeline=2", "take --parallel graph=2"},
		"values":   {withValues(g), "", "the labels of the graph are values"},
		"types":    {severalTypes(t), "model rgcn", "vertex types"},
		"bare":     {&bare, "node-embedding 8", "the graph has no features"},
	} {
		t.Run(name, func(t *testing.T) {
			o := apply(Defaults(), "label-input .5, epochs 1")
			o = apply(o, c.change)
			if _, err := (&Job{Graph: c.g, Options: o}).Run(context.Background()); err == nil ||
				!strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	o := apply(Defaults(), "label-input .5, epochs 1")
	weights := run(t, g, o).Weights
	for want, g := range map[string]*graph.Graph{
		"the graph has no labels":  &unlabelled,
		"the graph has no split 0": &split,
	} {
		_, err := (&Job{Graph: g, Options: o}).Predict(context.Background(), weights, Logits)
		assert.ErrorContains(t, err, want)
	}
}
