package train

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/nn"
	"weft/train/setting"
)

// oracle is the output of testdata/oracle.py, which documents the fields.
type oracle struct {
	Features  [][]float32
	Trainings map[string]training
	Measures  map[string]measured
}

// training is a training by PyTorch.
type training struct {
	Options struct {
		Layers, Epochs, Patience int
		EvalEvery                int `json:"eval-every"`
		Norm, Optimizer          string
		Schedule                 string
		LR, Clip                 float64
		WeightDecay              float64 `json:"weight-decay"`
		DecayFirstLayerOnly      bool    `json:"decay-first-layer-only"`
	}
	Labels      labels
	Split       graph.Split
	Init        tensors
	Losses      []float64
	Evaluations []struct {
		Epoch   int
		ValLoss float64               `json:"val_loss"`
		Metrics map[string][3]float64 // of the training, validation and test vertices
	}
	Ends  map[string]map[string]struct{ Best, Last int } // by metric, and by what selects
	After map[int]struct {
		State  tensors
		Logits [][]float64
	}
}

// measured are scikit-learn's metrics of some vertices.
type measured struct {
	Classes  int
	Logits   [][]float32
	Labels   labels
	Vertices []int64
	Metrics  map[string]float64
}

// tensors is a model's tensors.
type tensors map[string]struct {
	Shape  []int
	Values []float64
}

// labels is a class for each vertex, or a row of labels in which null is missing.
type labels struct {
	class []int64
	multi []float32
}

func (l *labels) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &l.class) == nil {
		return nil
	}
	l.class = nil
	var rows [][]*float32
	if err := json.Unmarshal(text, &rows); err != nil {
		return err
	}
	for _, row := range rows {
		for _, label := range row {
			if label == nil {
				missing := float32(math.NaN())
				label = &missing
			}
			l.multi = append(l.multi, *label)
		}
	}
	return nil
}

func (l labels) graphLabels(classes int) graph.Labels {
	return graph.Labels{Classes: classes, Class: l.class, Multi: l.multi}
}

func readOracle(t *testing.T) (o oracle) {
	t.Helper()
	text, err := os.ReadFile("testdata/oracle.json")
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	require.NoError(t, err)
	return o
}

// job is the same training by weft.
func (c *training) job(t *testing.T, features [][]float32, metric, selects, mesh string) *Job {
	t.Helper()
	relation, err := graph.NewRelation(len(features), graph.Edges{})
	require.NoError(t, err)
	classes := len(c.After[c.Ends[metric][selects].Best].Logits[0])
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count:    len(relation.Indptr) - 1,
				Features: graph.Features{Columns: len(features[0]), Dense: slices.Concat(features...)},
				Labels:   c.Labels.graphLabels(classes), Splits: []graph.Split{c.Split},
			},
		}},
		Relations: []graph.Relation{relation},
	}
	o := Defaults()
	o.Model, o.Hidden, o.Dropout, o.Metric, o.Select, o.Threads = "mlp", 8, 0, metric, selects, 1
	o.Layers, o.Norm, o.Epochs, o.Patience, o.EvalEvery = c.Options.Layers, c.Options.Norm, c.Options.Epochs,
		c.Options.Patience, setting.Every(max(1, c.Options.EvalEvery))
	o.LR, o.Clip, o.WeightDecay, o.DecayFirstLayerOnly = c.Options.LR, c.Options.Clip, c.Options.WeightDecay,
		c.Options.DecayFirstLayerOnly
	if c.Options.Optimizer != "" {
		o.Optimizer = c.Options.Optimizer
	}
	if c.Options.Schedule != "" {
		o.Schedule = c.Options.Schedule
	}
	o.Init = filepath.Join(t.TempDir(), "init.safetensors")
	tensors := map[string]safetensors.Tensor{}
	for name, s := range c.Init {
		array := safetensors.Tensor{Shape: s.Shape}
		for _, x := range s.Values {
			array.Float32 = append(array.Float32, float32(x))
		}
		if len(s.Shape) == 0 {
			array = safetensors.Tensor{Shape: s.Shape, Int64: []int64{int64(s.Values[0])}}
		}
		tensors[name] = array
	}
	file, err := os.Create(o.Init)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, safetensors.Write(file, tensors, nil))
	if strings.HasPrefix(mesh, "pipeline=") {
		o.Chunks = 1 // with several chunks the embeddings of others are stale
	}
	if mesh == "" {
		return &Job{Graph: g, Options: o}
	}
	return onMesh(g, o, mesh)
}

// closeTo asserts that x is close to y, or that both are NaN.
func closeTo(t *testing.T, what string, x, y, tolerance float64) {
	t.Helper()
	if math.IsNaN(x) != math.IsNaN(y) || math.Abs(x-y) > tolerance*math.Max(1, math.Abs(y)) {
		t.Errorf("%s is %v, want %v", what, x, y)
	}
}

// TestTrainingsOfPyTorch compares whole trainings with PyTorch's in double precision, and their metrics with
// scikit-learn's. It compares each epoch's loss, each evaluation, the best and the last epoch, and the best
// epoch's weights, running statistics and logits. One training has missing labels.
func TestTrainingsOfPyTorch(t *testing.T) {
	all := readOracle(t)
	for name, c := range all.Trainings {
		for metric, bySelect := range c.Ends {
			for selects, end := range bySelect {
				for _, mesh := range []string{"", "graph=3", "tensor=2", "pipeline=2"} {
					if mesh != "" && metric != "macro-f1" {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, by %s, %s", name, metric, selects, mesh), func(t *testing.T) {
						j := c.job(t, all.Features, metric, selects, mesh)
						var told []Epoch
						j.OnEpoch = func(e Epoch) {
							if e.Evaluated {
								told = append(told, e)
							}
						}
						r := mustRun(t, j)
						if r.BestEpoch != end.Best || r.Epochs != end.Last || r.Metric != metric {
							t.Fatalf("the best epoch is %d and the last %d by %s, want %+v by %s",
								r.BestEpoch, r.Epochs, r.Metric, end, metric)
						}
						for i, loss := range r.Losses {
							closeTo(t, fmt.Sprintf("loss of epoch %d", i+1), loss, c.Losses[i], 1e-4)
						}
						for i, e := range told {
							want := c.Evaluations[i]
							require.Equal(t, want.Epoch, e.Epoch, "epoch")
							closeTo(t, fmt.Sprintf("validation loss of epoch %d", e.Epoch), e.ValLoss,
								want.ValLoss, 1e-4)
							for part, got := range []float64{e.Train, e.Val, e.Test} {
								closeTo(t, fmt.Sprintf("%s of part %d in epoch %d", metric, part, e.Epoch),
									got, want.Metrics[metric][part], 1e-9)
							}
							if e.Epoch == end.Best {
								closeTo(t, "validation loss", r.ValLoss, want.ValLoss, 1e-4)
								for part, got := range []float64{r.Train, r.Val, r.Test} {
									closeTo(t, fmt.Sprintf("%s of part %d", metric, part), got,
										want.Metrics[metric][part], 1e-9)
								}
							}
						}
						if len(told) == 0 {
							t.Error("nothing was evaluated")
						}
						for i, z := range slices.Concat(c.After[end.Best].Logits...) {
							closeTo(t, fmt.Sprintf("logit %d", i), float64(r.Logits[i]), z, 1e-3)
						}
						c.After[end.Best].State.check(t, r.Weights)
					})
				}
			}
		}
	}
}

// check compares the tensors. Biases before batch norm, which the file lacks, must be zero.
func (s tensors) check(t *testing.T, weights nn.State) {
	t.Helper()
	for name, want := range s {
		got := weights[name]
		if !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s has the shape %v, want %v", name, got.Shape, want.Shape)
		} else if len(want.Shape) == 0 {
			closeTo(t, name, float64(got.Int64[0]), want.Values[0], 0)
		} else {
			for i, x := range want.Values {
				closeTo(t, fmt.Sprintf("%s, number %d,", name, i), float64(got.Float32[i]), x, 1e-3)
			}
		}
	}
	for name, got := range weights {
		if _, known := s[name]; !known &&
			slices.ContainsFunc(got.Float32, func(x float32) bool { return x != 0 }) {
			t.Errorf("%s is %v, want none", name, got.Float32)
		}
	}
}
