package train

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/parallel/axis"
	"weft/train/plan"
)

// labelEdges gives edges labels of a kind, classes, several or values, with some missing, and two splits. The
// graph has edges of different labels between one pair of vertices. One class in 40 edges is rare.
func labelEdges(t *testing.T, g *graph.Graph, relation int, kind string) *graph.Graph {
	t.Helper()
	g = g.Copy()
	r := &g.Relations[relation]
	r.SetLabels(&graph.Frame{Labels: graph.Labels{Column: "label"}})
	l := &r.Frame
	differ := false
	e := r.Edges()
	for k := range e.Source {
		y := (int(e.Source[k])*7 + int(e.Target[k])*3 + k*k) % 40
		differ = differ || k > 0 && e.Source[k] == e.Source[k-1] && e.Target[k] == e.Target[k-1] &&
			y != (int(e.Source[k])*7+int(e.Target[k])*3+(k-1)*(k-1))%40
		missing := k%5 == 4
		switch kind {
		case "classes":
			class := int64(min(y, 2)) // 0 and 1 are rare
			if missing {
				class = -1
			}
			l.Labels.Classes, l.Labels.Class = 3, append(l.Labels.Class, class)
		case "several":
			l.Labels.Classes = 2
			for bit := range 2 {
				x := float32(y >> bit & 1)
				if missing && bit == 1 {
					x = float32(math.NaN())
				}
				l.Labels.Multi = append(l.Labels.Multi, x)
			}
		default:
			x := 3 + float32(y)/8
			if missing {
				x = float32(math.NaN())
			}
			l.Labels.Columns, l.Labels.Values = 1, append(l.Labels.Values, x)
		}
	}
	assert.Equal(t, true, differ || relation > 0, "parallel edges of different labels")
	require.NoError(t, l.MakeSplits("random:60/20/20", 2, 7))
	require.NoError(t, g.Check())
	return g
}

// edgeLabelOptions are of a run that learns them.
func edgeLabelOptions(words string) Options {
	return apply(Defaults(), "edge-label label, hidden 6, epochs 1, dropout 0, threads 1, "+words)
}

// TestEdgeLabels: logits are those of an MLP of [h_u, h_v, h_u ⊙ h_v, standard scores of the edge's
// features], computed here in double precision from the rows of vertices that the blocks before it make, and
// losses those of the training edges. The step of SGD is the gradient, by quotients of differences.
func TestEdgeLabels(t *testing.T) {
	for _, kind := range []string{"classes", "several", "values"} {
		t.Run(kind, func(t *testing.T) {
			g := labelEdges(t, tangle(t, 60, 40), 0, kind)
			o := edgeLabelOptions("optimizer sgd, momentum 0, lr .5, split 1, decoder-layers 3, decoder-hidden 5, " +
				"out-features 4")
			c := &labelledEdges{Job: &Job{Graph: g, Options: o}}
			first := mustRun(t, c.Job)
			o.Init = filepath.Join(t.TempDir(), "weights.safetensors")
			for name, w := range first.Weights {
				before := nn.Tensor{Shape: w.Shape, Float32: make([]float32, len(w.Float32))}
				for k := range before.Float32 {
					before.Float32[k] = float32((k*7+len(name))%16-8) / 24
					if strings.HasPrefix(name, "edge_features") || strings.HasPrefix(name, "target") {
						before.Float32[k] = w.Float32[k]
					}
				}
				first.Weights[name] = before
			}
			c.Options.Init, c.weights = o.Init, first.Weights
			r, loss := c.run(t, 0.5)
			assert.Near(t, loss, r.Losses[0], 1e-6, "loss")
			c.unitsByHand(t)
			before := first.Weights
			for name, w := range r.Weights {
				if strings.HasPrefix(name, "edge_features") || strings.HasPrefix(name, "target") {
					continue
				}
				for k := 0; k < len(w.Float32); k += 1 + len(w.Float32)/3 {
					gradient := float64(before[name].Float32[k]-w.Float32[k]) / .5
					at, losses := &c.weights[name].Float32[k], [2]float64{}
					was := *at
					for i, step := range []float32{.02, -.02} {
						*at = was + step
						_, losses[i] = c.run(t, 1e-30)
					}
					*at = was
					assert.Near(t, (losses[0]-losses[1])/.04, gradient, 3e-3, "%s %d", name, k)
				}
			}
		})
	}
}

// labelledEdges is a job of one epoch whose weights before it are given.
type labelledEdges struct {
	*Job
	weights nn.State
}

// run trains with a rate, and returns the loss of the weights before it. It compares the logits at the rate's
// weights with those by hand.
func (c *labelledEdges) run(t *testing.T, rate float64) (*Result, float64) {
	t.Helper()
	f := &bytes.Buffer{}
	require.NoError(t, nn.EncodeState(f, c.weights))
	require.NoError(t, os.WriteFile(c.Options.Init, f.Bytes(), 0o600))
	var rows []float32
	columns := 0
	c.OnEmbeddings = func(all Rows) error {
		columns = all.Columns
		for batch := range all.Each {
			rows = append(rows, batch...)
		}
		return nil
	}
	c.Options.LR = 1e-30
	still := mustRun(t, c.Job)
	loss := c.byHand(t, still, rows, columns)
	if rate < 1e-20 {
		return still, loss
	}
	c.OnEmbeddings, c.Options.LR = nil, rate
	return mustRun(t, c.Job), loss
}

// byHand compares logits with those of the decoder, and returns the loss of the training edges.
func (c *labelledEdges) byHand(t *testing.T, r *Result, rows []float32, columns int) (loss float64) {
	t.Helper()
	rel := &c.Graph.Relations[0]
	l, e := &rel.Frame, rel.Edges()
	split := l.Splits[1]
	train := map[int64]bool{}
	for _, k := range split.Train {
		train[k] = true
	}
	total := 0.
	for k := range e.Source {
		u, v := rows[int(e.Source[k])*columns:][:columns], rows[int(e.Target[k])*columns:][:columns]
		var x []float64
		for _, end := range [][]float32{u, v} {
			for _, a := range end {
				x = append(x, float64(a))
			}
		}
		for i := range u {
			x = append(x, float64(u[i])*float64(v[i]))
		}
		for i := range rel.Features.Columns {
			value := float64(rel.Features.Dense[k*rel.Features.Columns+i])
			x = append(x, (value-c.weight("edge_features.mean", i))/
				c.weight("edge_features.deviation", i))
		}
		for layer := range 3 {
			w := c.weights[fmt.Sprintf("decoder.lins.%d.weight", layer)]
			b := c.weights[fmt.Sprintf("decoder.lins.%d.bias", layer)]
			z := make([]float64, w.Shape[0])
			for i := range z {
				z[i] = float64(b.Float32[i])
				for j, a := range x {
					z[i] += a * float64(w.Float32[i*w.Shape[1]+j])
				}
				if layer < 2 {
					z[i] = max(0, z[i])
				}
			}
			x = z
		}
		n := len(x)
		for i, z := range x {
			got, want := float64(r.Logits[k*n+i]), z
			if l.Labels.Continuous() {
				want = z*c.weight("target.deviation", i) + c.weight("target.mean", i)
			}
			assert.Near(t, want, got, 2e-5, "edge %d", k)
		}
		if !train[int64(k)] {
			continue
		}
		switch {
		case l.Labels.Class != nil:
			sum := 0.
			for _, z := range x {
				sum += math.Exp(z)
			}
			loss, total = loss+math.Log(sum)-x[l.Labels.Class[k]], total+1
		case l.Labels.Continuous():
			y := (float64(l.Labels.Values[k]) - c.weight("target.mean", 0)) / c.weight("target.deviation", 0)
			loss, total = loss+(x[0]-y)*(x[0]-y), total+1
		default:
			for i, z := range x {
				if y := float64(l.Labels.Multi[k*n+i]); y == y {
					loss, total = loss+math.Log1p(math.Exp(z))-y*z, total+1
				}
			}
		}
	}
	return loss / total
}

// weight is a number of the weights.
func (c *labelledEdges) weight(name string, k int) float64 {
	return float64(c.weights[name].Float32[k])
}

// unitsByHand compares the units of the edges' features with means and deviations over all edges.
func (c *labelledEdges) unitsByHand(t *testing.T) {
	t.Helper()
	r := &c.Graph.Relations[0]
	n := float64(len(r.Sources))
	for i := range r.Features.Columns {
		mean, square := 0., 0.
		for k := range r.Sources {
			mean += float64(r.Features.Dense[k*r.Features.Columns+i]) / n
		}
		for k := range r.Sources {
			d := float64(r.Features.Dense[k*r.Features.Columns+i]) - mean
			square += d * d / n
		}
		assert.Near(t, mean, c.weight("edge_features.mean", i), 1e-6)
		assert.Near(t, math.Sqrt(square), c.weight("edge_features.deviation", i), 1e-6)
	}
}

// TestEdgeLabelsOnMeshes: losses, metrics and logits are those of one worker on all meshes, with dropout, and
// the memory is that of the plan, to the byte. The relation of several types has ends of two of them.
func TestEdgeLabelsOnMeshes(t *testing.T) {
	one, types := tangle(t, 60, 40), severalTypes(t)
	for _, c := range []struct {
		g     *graph.Graph
		words string
	}{
		{labelEdges(t, one, 0, "classes"), "model sage, metric macro-f1"},
		{labelEdges(t, one, 0, "several"), "model gcn, direction both, out-features 5, metric roc-auc"},
		{labelEdges(t, one, 0, "values"), "model gat, heads 2, metric mae"},
		{labelEdges(t, one, 0, "classes"), "model gine, class-weights balanced"},
		{labelEdges(t, types, 1, "values"), "model sage, split random:50/0/50"},
	} {
		edgesOnMeshes(t, c.g, c.words, []string{
			"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "partitions 3", "pipeline=2",
			"graph=2,tensor=2,pipeline=2",
		}, func(*Result, *Result, string) {})
	}
}

// edgesOnMeshes trains on labels of edges with the same options on several meshes, and fails unless losses,
// training metric and logits are those of the first mesh, memory is as planned, and bfloat16 begins alike. It
// calls check with the results of the first and of each mesh.
func edgesOnMeshes(t *testing.T, g *graph.Graph, words string, meshes []string,
	check func(first, r *Result, on string),
) {
	t.Helper()
	var first *Result
	for _, mesh := range meshes {
		o := edgeLabelOptions("epochs 4, lr .003, dropout .3, " + words)
		switch o.Parallel = mesh; mesh {
		case "partitions 3":
			o.Parallel, o.Partitions, o.Offload = "", 3, t.TempDir()
		case "pipeline=2": // a chunk for each partition, which is exact
			o.Chunks = 1
		case "graph=2,tensor=2,pipeline=2":
			o.Chunks = 2
		}
		on := words + " on " + mesh
		j := &Job{Graph: g, Options: o}
		p, err := j.PlanWith(t.Context(), plan.Asks{})
		require.NoError(t, err)
		r := mustRun(t, j)
		assert.Equal(t, p.PeakTensorBytes, r.PeakTensorBytes, "%s: memory", on)
		if first == nil {
			first = r
		}
		for k, loss := range first.Losses {
			assert.Near(t, loss, r.Losses[k], 1e-5*math.Max(1, loss), "%s: epoch %d", on, k+1)
		}
		assert.Near(t, first.Train, r.Train, 1e-3, "%s", on)
		if d := apart(first.Logits, r.Logits); !(d < 1e-3) {
			t.Errorf("%s: logits differ by %v", on, d)
		}
		check(first, r, on)
		o.Precision = "bf16"
		h := mustRun(t, &Job{Graph: g, Options: o})
		assert.Near(t, first.Losses[0], h.Losses[0], .03*math.Max(1, first.Losses[0]), "%s: bfloat16", on)
	}
}

// TestEdgeLabelsInChunks: evaluation is exact, however many chunks a pipeline has: logits of the same weights
// are those of one worker.
func TestEdgeLabelsInChunks(t *testing.T) {
	g := labelEdges(t, tangle(t, 60, 40), 0, "classes")
	var want *Result
	for mesh, chunks := range map[string]axis.Chunks{"pipeline=2": 5, "graph=2,tensor=2,pipeline=2": 6} {
		o := edgeLabelOptions("model gat, heads 2, layers 3, lr 1e-30, epochs 3")
		if want == nil {
			want = mustRun(t, &Job{Graph: g, Options: o})
		}
		o.Parallel, o.Chunks, o.ChunkOrder = mesh, chunks, axis.Fixed
		got, _ := planAndRun(t, &Job{Graph: g, Options: o})
		if d := apart(want.Logits, got.Logits); !(d < 1e-5) {
			t.Errorf("%s: logits differ by %v", mesh, d)
		}
		assert.Equal(t, want.Train, got.Train, mesh)
	}
}

// TestEdgeLabelsOfPrograms: losses and logits of a program that returns rows of edges are those of one
// worker, where states of edges pass from stage to stage, too. The memory is that of the plan, to the byte.
func TestEdgeLabelsOfPrograms(t *testing.T) {
	g := labelEdges(t, tangle(t, 60, 40), 0, "classes")
	var first *Result
	for _, mesh := range []string{
		"graph=1", "graph=3", "tensor=2", "pipeline=2", "graph=2,tensor=2,pipeline=2",
	} {
		o := apply(lastStatesOptions(t, 3), "edge-label label, lr .01, eval-every 1")
		switch o.Parallel = mesh; mesh {
		case "pipeline=2": // a chunk for each partition, which is exact
			o.Chunks = 1
		case "graph=2,tensor=2,pipeline=2":
			o.Chunks = 2
		}
		r, _ := planAndRun(t, &Job{Graph: g, Options: o})
		if first == nil {
			first = r
		}
		for k, loss := range first.Losses {
			assert.Near(t, loss, r.Losses[k], 1e-5*math.Max(1, loss), "%s: epoch %d", mesh, k+1)
		}
		if d := apart(first.Logits, r.Logits); !(d < 1e-4) {
			t.Errorf("%s: logits differ by %v", mesh, d)
		}
	}
}

// TestRefusesEdgeLabels: what is not there, and what no edges are learned with, is refused by name.
func TestRefusesEdgeLabels(t *testing.T) {
	g := labelEdges(t, tangle(t, 60, 40), 0, "classes")
	for words, want := range map[string]string{
		"edge-label other":                             "labels of other names: label",
		"task edge":                                    "name their column with --edge-label",
		"edge-label label, drop-edge .5":               "--drop-edge 0.5: an epoch learns the labels of all edges",
		"edge-label label, label-input .5":             "belongs to --task vertex",
		"edge-label label, loss mse":                   "take cross-entropy, focal",
		"edge-label label, task link":                  "--edge-label label: belongs to --task edge",
		"edge-label label, split 3":                    "the number of splits that the graph has is 2",
		"edge-label label, split per-class=9999999,99": "has",
	} {
		o := apply(Defaults(), words)
		_, err := (&Job{Graph: g, Options: o}).Run(t.Context())
		assert.Refused(t, err, want)
	}
	_, err := (&Job{
		Graph: tangle(t, 60, 40), Options: apply(Defaults(), "edge-label label"),
	}).Run(t.Context())
	assert.Refused(t, err, "its edges have no labels")
}
