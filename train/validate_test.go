package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/task"
)

// elsewhereGraph is a graph of the features and classes of tangle, with other vertices and edges.
func elsewhereGraph(t *testing.T, vertices int) *graph.Graph {
	t.Helper()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: vertices, Degree: 5, Features: 13, Classes: 5, Seed: 9, Directed: true,
	})
	require.NoError(t, err)
	r := &g.Relations[0]
	r.Weights, r.Features.Columns = make([]float32, len(r.Sources)), 3
	for k := range r.Sources {
		r.Weights[k] = 1 + float32(k%3)
		r.Features.Dense = append(r.Features.Dense, float32(k%5), 1, -float32(k%2))
	}
	return g
}

// validated is a job that is validated on another graph, and its epochs.
func validated(g, other *graph.Graph, o Options) (j *Job, curve *[]Epoch) {
	curve = new([]Epoch)
	return &Job{
		Graph: g, Options: o, Validate: &Job{Graph: other, Dataset: "other"},
		OnEpoch: func(e Epoch) { *curve = append(*curve, e) },
	}, curve
}

// TestValidate: with another graph to validate on, a run has the losses that it has without. Its validation
// and test metrics are those of a prediction there with the weights of the best epoch, which is the first one
// with the best of them. The plan is what the run takes, to the byte.
func TestValidate(t *testing.T) {
	g, other := tangle(t, 700, 3000), elsewhereGraph(t, 300)
	for _, name := range []string{"gcn", "sage-max", "gat-edges", "pna", "cat", "both", "gcnii"} {
		t.Run(name, func(t *testing.T) {
			o := apply(networks()[name], "epochs 4")
			plain := run(t, g, o)
			j, curve := validated(g, other, o)
			r, _ := planAndRun(t, j)
			if !slices.Equal(r.Losses, plain.Losses) || r.Validation == nil || r.Validation.Vertices != 300 {
				t.Errorf("losses %v, without validation elsewhere %v; validation graph %+v", r.Losses,
					plain.Losses, r.Validation)
			}
			best := 0
			for k, e := range *curve {
				if e.Val > (*curve)[best].Val {
					best = k
				}
			}
			if e := (*curve)[best]; r.BestEpoch != best+1 || r.Val != e.Val || r.Test != e.Test ||
				r.ValLoss != e.ValLoss || r.Train != e.Train {
				t.Errorf("best epoch %d: %+v, of %+v", r.BestEpoch, r, *curve)
			}
			p, err := (&Job{Graph: other, Options: o}).Predict(context.Background(), r.Weights, Logits)
			require.NoError(t, err)
			s := &other.Types[0].Splits[0]
			for part, got := range []float64{r.Val, r.Test} {
				e, err := metric.Evaluate(p.Logits, &other.Types[0].Labels, [][]int64{s.Val, s.Test}[part])
				require.NoError(t, err)
				assert.Equal(t, e.Scores[r.Metric], got, "%s of part %d", r.Metric, part)
			}
			loss := 0.
			for _, v := range s.Val {
				row, sum := p.Logits[5*v:5*v+5], 0.
				for _, z := range row {
					sum += math.Exp(float64(z))
				}
				loss += math.Log(sum) - float64(row[other.Types[0].Labels.Class[v]])
			}
			loss /= float64(len(s.Val))
			assert.Near(t, r.ValLoss, loss, 1e-5*loss, "validation loss")
		})
	}
}

// TestValidateOnMeshes: workers of every axis measure another graph as one worker does. It may have fewer
// vertices than there are slices and partitions.
func TestValidateOnMeshes(t *testing.T) {
	g := tangle(t, 700, 3000)
	for vertices, name := range map[int]string{150: "gat", 7: "gcn"} {
		other := elsewhereGraph(t, 150)
		if vertices < 150 {
			var err error
			other, err = other.Induced(slices.Concat(slices.Repeat([]bool{true}, vertices),
				make([]bool, 150-vertices)))
			require.NoError(t, err)
			other.Types[0].Splits = []graph.Split{{Val: []int64{1, 4, 6}}}
		}
		o := networks()[name]
		o.Epochs, o.Norm, o.DropEdge, o.Threads = 3, "layer", 0, 1
		alone, want := validated(g, other, o)
		mustRun(t, alone)
		for mesh, change := range map[string]string{
			"graph=3":            "",
			"tensor=2":           "",
			"graph=2,tensor=2":   "",
			"pipeline=2":         "chunks 1",
			"graph=2":            "partitions 4",
			"graph=1":            "partitions 3, offload " + t.TempDir(),
			"graph=2,pipeline=2": "chunks 2",
		} {
			if vertices < 10 && strings.Contains(mesh, "pipeline") {
				continue // a chunk has a vertex
			}
			t.Run(fmt.Sprintf("%s on %s, %d", name, mesh, vertices), func(t *testing.T) {
				o := apply(o, change)
				j := onMesh(g, o, mesh)
				with, curve := validated(g, other, j.Options)
				p, err := with.Plan(context.Background())
				require.NoError(t, err)
				r := mustRun(t, with)
				// chunks, and messages between workers, come in any order
				bound := strings.Contains(mesh, "pipeline") || mesh == "graph=2"
				for k, bytes := range r.PeakTensorBytes {
					if planned := p.PeakTensorBytes[k]; bytes > planned || bytes < planned && !bound {
						t.Errorf("worker %d takes %d, and %d are planned", k, bytes, planned)
					}
				}
				for k, e := range *curve {
					w := (*want)[k]
					assert.Near(t, w.ValLoss, e.ValLoss, 1e-3*w.ValLoss, "epoch %d", k+1)
					assert.Near(t, w.Val, e.Val, 1.01/float64(vertices/5), "epoch %d", k+1)
				}
			})
		}
	}
}

// TestValidateMeasures: weights of classes are those of the training vertices, and values have the units of
// these. The sums over all labels of the other graph are by hand, with no more classes than it has.
func TestValidateMeasures(t *testing.T) {
	g, other := tangle(t, 700, 3000), elsewhereGraph(t, 300)
	for v, class := range other.Types[0].Labels.Class {
		other.Types[0].Labels.Class[v] = class % 3
	}
	other.Types[0].Labels.Classes, other.Types[0].Splits = 3, []graph.Split{
		{Val: []int64{1, 2, 5, 9}, Test: []int64{3}},
	}
	o := apply(networks()["gcn"], "class-weights balanced")
	j, _ := validated(g, other, o)
	r := mustRun(t, j)
	p, err := (&Job{Graph: other, Options: o}).Predict(context.Background(), r.Weights, Logits)
	require.NoError(t, err)
	count := make([]float64, 5)
	for _, v := range g.Types[0].Splits[0].Train {
		count[g.Types[0].Labels.Class[v]]++
	}
	loss, weight := 0., 0.
	for _, v := range other.Types[0].Splits[0].Val {
		row, sum := p.Logits[5*v:5*v+5], 0.
		for _, z := range row {
			sum += math.Exp(float64(z))
		}
		c := other.Types[0].Labels.Class[v]
		weight += 1 / count[c]
		loss += (math.Log(sum) - float64(row[c])) / count[c]
	}
	loss /= weight
	assert.Near(t, r.ValLoss, loss, 1e-5*loss, "validation loss")

	values := func(g *graph.Graph, scale float32) *graph.Graph {
		with := *g.Copy()
		with.Types[0].Labels = graph.Labels{Columns: 1, Values: make([]float32, g.Types[0].Count)}
		for v := range with.Types[0].Labels.Values {
			with.Types[0].Labels.Values[v] = scale * (float32(v%10) + 2*g.Types[0].Features.Row(v)[0])
		}
		return &with
	}
	trained, validation := values(g, 3), values(other, 4)
	j, _ = validated(trained, validation, networks()["sage"])
	r = mustRun(t, j)
	p, err = (&Job{Graph: validation, Options: j.Options}).Predict(context.Background(), r.Weights, Logits)
	require.NoError(t, err)
	square := 0.
	for _, v := range other.Types[0].Splits[0].Val {
		square += math.Pow(float64(p.Logits[v]-validation.Types[0].Labels.Values[v]), 2)
	}
	if want := math.Sqrt(square / 4); r.Metric != "rmse" || math.Abs(want-r.Val) > 1e-5*want {
		t.Errorf("%s %v, by hand %v", r.Metric, r.Val, want)
	}
}

// TestValidateRefuses: a graph on which the model cannot be validated is refused by its name.
func TestValidateRefuses(t *testing.T) {
	g := tangle(t, 700, 3000)
	for want, change := range map[string]func(other *graph.Graph, o *Options){
		"it has 2 features, and the graph that is trained on has 13": func(other *graph.Graph, _ *Options) {
			other.Types[0].Features = graph.Features{
				Columns: 2,
				Dense:   make([]float32, 2*other.Types[0].Count),
			}
		},
		"its labels are of 7 classes or columns, and those of the graph that is trained on of 5": func(other *graph.Graph, _ *Options) {
			other.Types[0].Labels.Classes = 7
		},
		"a vertex has one class in one of the graphs and several labels in the other": func(other *graph.Graph, _ *Options) {
			other.Types[0].Labels = graph.Labels{Classes: 5, Multi: make([]float32, 5*other.Types[0].Count)}
		},
		"the graph has no split into training": func(other *graph.Graph, _ *Options) {
			other.Types[0].Splits = nil
		},
		"--split 0 has no validation vertices; import it with --split val": func(other *graph.Graph, _ *Options) {
			other.Types[0].Splits = []graph.Split{{Train: []int64{1}}}
		},
		"with a row for each vertex of its graph": func(_ *graph.Graph, o *Options) {
			o.Model, o.NodeEmbedding = "sage", 4
		},
		"--model gine: it uses edge features, and the edges have none; import the graph with those of its " +
			"source, or take another --model": func(other *graph.Graph, o *Options) {
			o.Model, other.Relations[0].Features.Columns, other.Relations[0].Features.Dense = "gine", 0, nil
		},
		"the model has convs.0.lin.weight as [1 13] there, and as [3 13] on the graph that is trained on": func(other *graph.Graph, o *Options) {
			r := &other.Relations[0]
			o.Model, r.Features.Columns, r.Features.Dense = "gine", 1, make([]float32, len(r.Sources))
		},
		"validates labels of vertices":     func(_ *graph.Graph, o *Options) { o.Task = task.Link },
		"a job has that graph as Validate": func(_ *graph.Graph, o *Options) { o.Validate = "other" },
	} {
		o, other := networks()["gcn"], elsewhereGraph(t, 100)
		change(other, &o)
		train := *g.Copy()
		if o.NodeEmbedding > 0 {
			train.Types[0].Features, other.Types[0].Features = graph.Features{}, graph.Features{}
		}
		j, _ := validated(&train, other, o)
		if o.Validate != "" {
			j.Validate = nil
		}
		_, err := j.Run(context.Background())
		if !refusal.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a refusal with %q", err, want)
		} else if o.Task != task.Link && o.Validate == "" &&
			!strings.HasPrefix(err.Error(), "--validate other: ") {
			t.Errorf("error %v does not begin with the setting and the graph", err)
		}
	}
}

// TestValidateTypes: a graph of the same vertex types in another order has the metrics that it has in the
// order of the one that is trained on. Other types, and other features of a type that is not the first, are
// refused.
func TestValidateTypes(t *testing.T) {
	g := severalTypes(t)
	o := apply(networks()["gcn"], "model rgcn, residual false, norm none, normalize-features standard, epochs 2")
	validate := func(change func(g *graph.Graph)) (*Result, error) {
		other := *g.Copy()
		other.Types, other.Relations = slices.Clone(g.Types), slices.Clone(g.Relations)
		change(&other)
		j, _ := validated(g, &other, o)
		return j.Run(context.Background())
	}
	aside := func(g *graph.Graph) {
		g.Types = append(g.Types, graph.VertexType{
			Type:  "c",
			Frame: graph.Frame{Count: 4, Features: graph.Features{Columns: 1, Dense: make([]float32, 4)}},
		})
	}
	same, err := validate(func(*graph.Graph) {})
	require.NoError(t, err)
	three := severalTypes(t)
	aside(three)
	swapped := *three
	swapped.Types = []graph.VertexType{three.Types[0], three.Types[2], three.Types[1]}
	j, _ := validated(three, &swapped, o)
	r, err := j.Run(context.Background())
	require.NoError(t, err)
	assert.Equal(t, same.ValLoss, r.ValLoss)

	for want, change := range map[string]func(g *graph.Graph){
		`it has vertices of the type "c", and the graph that is trained on has none`: aside,
		`it has 3 features of the vertex type "b", and the graph that is trained on has 2`: func(g *graph.Graph) {
			g.Types[1].Features = graph.Features{Columns: 3, Dense: make([]float32, 3*g.Types[1].Count)}
		},
	} {
		_, err := validate(change)
		if !refusal.Is(err) || !strings.Contains(err.Error(), "--validate other: "+want) {
			t.Errorf("%v, want a refusal with %q", err, want)
		}
	}
}

// TestValidateResumes: a run that continues has the validation metrics of one that never stopped, to the bit.
func TestValidateResumes(t *testing.T) {
	g, other, dir := tangle(t, 700, 3000), elsewhereGraph(t, 150), t.TempDir()
	o := apply(networks()["sage"], "epochs 6, eval-every 2")
	whole, _ := validated(g, other, o)
	want := follow(whole, filepath.Join(dir, "whole"), nil)
	mustRun(t, whole)
	first, _ := validated(g, other, o)
	follow(first, filepath.Join(dir, "stopped"), nil)
	if r, err := first.Run(stopAfter(first, 3)); err != nil || r.Epochs != 3 {
		t.Fatalf("%v, %+v", err, r)
	}
	second, _ := validated(g, other, o)
	got := follow(second, filepath.Join(dir, "stopped"), openLast(t, filepath.Join(dir, "stopped")))
	mustRun(t, second)
	for k := range *want {
		w, g := (*want)[k], (*got)[k]
		if w.Loss != g.Loss || w.Evaluated && (w.Val != g.Val || w.ValLoss != g.ValLoss) {
			t.Errorf("epoch %d: %+v, want %+v", k+1, g, w)
		}
	}
}
