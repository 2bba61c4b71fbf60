package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/partition"
)

// smoothGolden is testdata/smooth.json: what PyG's CorrectAndSmooth and LabelPropagation compute.
type smoothGolden struct {
	Vertices, Classes int
	Sources, Targets  []int32
	Weights           []float32
	Labels            []int64
	Train, Val        []int64
	Probabilities     []float32
	Cases             []struct {
		Correct      int
		CorrectAlpha float64 `json:"correct_alpha"`
		Smooth       int
		SmoothAlpha  float64 `json:"smooth_alpha"`
		Scale        float64
		Val          bool
		Result       []float64
	}
	Propagation struct {
		Rounds int
		Alpha  float64
		Result []float64
	}
}

func readSmoothGolden(t *testing.T) (golden smoothGolden, g *graph.Graph) {
	t.Helper()
	text, err := os.ReadFile("testdata/smooth.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &golden))
	r, err := graph.NewRelation(golden.Vertices, graph.Edges{
		Source: golden.Sources, Target: golden.Targets, Weights: golden.Weights,
	})
	require.NoError(t, err)
	g = &graph.Graph{
		Types: []graph.VertexType{
			{
				Frame: graph.Frame{
					Count:  len(r.Indptr) - 1,
					Labels: graph.Labels{Classes: golden.Classes, Class: golden.Labels},
					Splits: []graph.Split{{Train: golden.Train, Val: golden.Val}},
				},
			},
		},
		Relations: []graph.Relation{r},
	}
	return golden, g
}

// TestSmoothAsPyG: probabilities are those of PyG, on one worker, on partitions that are made or read, and on
// slices.
func TestSmoothAsPyG(t *testing.T) {
	golden, g := readSmoothGolden(t)
	for _, mesh := range []string{"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2"} {
		o := Defaults()
		o.Parallel, o.Threads = mesh, 1
		if strings.HasPrefix(mesh, "graph=") && mesh != "graph=1" {
			o.Partition = partition.Random
		}
		jobs := map[string]*Job{"the graph": {Graph: g, Options: o}}
		if mesh == "graph=3" {
			read := divided(t, g, o, 3, []int32{2: 1, 17: 2, 21: 1, 39: 0})
			read.Graph = nil
			jobs["parts"] = read
		}
		for name, job := range jobs {
			compare := func(what string, s gnn.Smoothing, probabilities []float32, val bool, want []float64) {
				p, err := job.Smooth(context.Background(), s, probabilities, Known{Val: val})
				require.NoError(t, err)
				worst := 0.
				for i, x := range p.Logits {
					worst = max(worst, math.Abs(float64(x)-want[i]))
				}
				if len(p.Logits) != len(want) || !(worst < 2e-6) {
					t.Errorf("%s, %s, %s: off by %g", mesh, name, what, worst)
				}
			}
			for i, c := range golden.Cases {
				s := gnn.Smoothing{
					Correct: gnn.Rounds{Count: c.Correct, Teleport: 1 - c.CorrectAlpha},
					Smooth:  gnn.Rounds{Count: c.Smooth, Teleport: 1 - c.SmoothAlpha}, Scale: c.Scale,
				}
				want := slices.Clone(c.Result)
				for k := range want {
					want[k] = min(max(want[k], 0), 1) // PyG does so in rounds of Smooth alone
				}
				compare(fmt.Sprintf("case %d, %+v", i, s), s, golden.Probabilities, c.Val, want)
			}
			propagation := gnn.Smoothing{
				Smooth: gnn.Rounds{Count: golden.Propagation.Rounds, Teleport: 1 - golden.Propagation.Alpha},
			}
			compare("label propagation", propagation, make([]float32, len(golden.Probabilities)), false,
				golden.Propagation.Result)
		}
	}
}

// TestSmoothRefuses names what has no class for each vertex.
func TestSmoothRefuses(t *testing.T) {
	golden, g := readSmoothGolden(t)
	values := *g.Copy()
	values.Types[0].Labels = graph.Labels{Columns: 1, Values: make([]float32, golden.Vertices)}
	several := *g.Copy()
	several.Types[0].Labels = graph.Labels{
		Classes: golden.Classes, Multi: make([]float32, len(golden.Probabilities)),
	}
	related := *g.Copy()
	related.Relations = []graph.Relation{g.Relations[0], g.Relations[0]}
	for want, c := range map[string]struct {
		g    *graph.Graph
		rows []float32
	}{
		"labels of this graph are values":  {&values, golden.Probabilities},
		"several labels":                   {&several, golden.Probabilities},
		"one vertex type":                  {severalTypes(t), golden.Probabilities},
		"one relation, and this one has 2": {&related, golden.Probabilities},
		"117 probabilities":                {g, slices.Clone(golden.Probabilities[3:])},
	} {
		_, err := (&Job{Graph: c.g, Options: Defaults()}).Smooth(context.Background(),
			gnn.Smoothing{}, c.rows, Known{})
		assert.Refused(t, err, want)
	}
}

// TestSmoothOfSureModel: where a model is sure of all known labels no vertex has an error to correct, and the
// scale of nothing is not 0/0. Other predictions stay as they are.
func TestSmoothOfSureModel(t *testing.T) {
	golden, g := readSmoothGolden(t)
	sure := slices.Clone(golden.Probabilities)
	for _, v := range golden.Train {
		row := sure[int(v)*golden.Classes:][:golden.Classes]
		clear(row)
		row[golden.Labels[v]] = 1
	}
	p, err := (&Job{Graph: g, Options: Defaults()}).Smooth(context.Background(),
		gnn.Smoothing{Correct: gnn.Rounds{Count: 3, Teleport: .1}}, sure, Known{})
	require.NoError(t, err)
	assert.Equal(t, sure, p.Logits, "probabilities")
}
