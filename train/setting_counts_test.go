package train

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/optim"
	"weft/parallel/axis"
	"weft/partition"
	"weft/train/setting"
	"weft/train/task"
)

// elsewhere lists the settings that do not change the losses, each with another value and its purpose.
var elsewhere = map[string]struct{ other, why string }{
	"patience":              {"4", "ends a run, which TestPatienceBelowEvalEvery looks at"},
	"eval-every":            {"2", "says when a run is evaluated"},
	"metric":                {"macro-f1", "says what an evaluation measures"},
	"validate":              {"", "says where a run is evaluated"},
	"calibrate":             {"isotonic", "is fitted once a run is trained, in package calibrate"},
	"select":                {"loss", "says which epoch's weights are kept"},
	"require-edge-features": {"true", "refuses models that do not use them"},
	"num-blocks":            {"2", "divides no width here, and one block is the whole weight"},
	"split-seed":            {"1", "draws a split by a rule, which TestSplitSetting looks at"},
	"loss":                  {"cross-entropy", "is the one of classes, and TestRegression looks at those of values"},
	// Of edges
	"link-relation":  {"vertex,edge,vertex", "names the only relation here"},
	"eval-negatives": {"7", "says what held-out edges are ranked among"},
}

// inTrainingAlone are settings that do nothing in an evaluation. They are above 0 in others.
var inTrainingAlone = []string{
	"dropout", "input-dropout", "transform-dropout", "attention-dropout", "drop-edge",
}

// TestEachSettingCounts: each setting of the model and of the training, with each of its choices, changes the
// losses of every model that uses it, also decoupled, and of no other model. A combination that is refused
// has no losses. Settings of the training that all models use are tried on one of them, with each optimizer,
// and on link prediction and in the decoder of edges. An evaluation has a pass of its own because of what
// training alone computes, in each model that uses it, and in no other.
func TestEachSettingCounts(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 60, Degree: 3, Features: 5, Classes: 3, Seed: 4, Directed: true,
	})
	require.NoError(t, err)
	require.NoError(t, g.MakeSplits("random:60/20/20", 2, 4))
	r := &g.Relations[0]
	r.Features.Columns, r.Features.Dense = 1, make([]float32, len(r.Sources))
	for k := range r.Features.Dense {
		r.Features.Dense[k] = float32(k%5) - 2
	}
	var bases []Options
	for _, model := range gnn.Names() {
		o := Defaults()
		o.Model, o.Layers, o.Hidden, o.Heads, o.OutputHeads, o.Dropout = model, 3, 8, 2, 2, .1
		o.Norm, o.NormalizeFeatures = "none", "none" // TestAutoFeatures looks at auto
		o.WeightDecay, o.Epochs, o.Threads = .1, 3, 1
		bases = append(bases, o)
		if kind, _ := gnn.KindOf(model); kind.ResidualBlocks() {
			o := o
			o.BlockForm, o.OutputHeads, o.LR = "residual", 1, .001
			bases = append(bases, o)
		}
		if slices.Contains(gnn.Decouplable(), model) {
			o.Decoupled, o.Heads, o.OutputHeads, o.LR = true, 1, 1, .001
			bases = append(bases, o)
		}
	}
	link := bases[0]
	link.Task, link.Decoder, link.LR = task.Link, "distmult", .001
	descent := bases[0]
	descent.Optimizer = "sgd"
	g = labelEdges(t, g, 0, "classes")
	edges := bases[slices.IndexFunc(bases, func(o Options) bool { return o.Model == "sgc" })]
	edges.Task, edges.EdgeLabel, edges.Decoder = task.Edge, "label", task.MLP
	single := edges
	single.DecoderLayers = 1 // without dropout
	for i, o := range append([]Options{link, descent, edges, single}, bases...) {
		was := run(t, g, o).Losses
		for _, s := range setting.All() {
			inTraining := slices.Contains(inTrainingAlone, s.Name)
			if o.Task == task.Edge && !inTraining || s.Group != setting.ModelGroup &&
				(s.Group != setting.TrainingGroup || i > 4 && len(s.Models()) == len(gnn.Names())) {
				continue
			}
			for _, text := range others(t, g, s, &o) {
				changed := o
				require.NoError(t, s.Set(&changed, text), "%s %s", s.Name, text)
				r, err := changed.Resolve()
				if err == nil {
					err = r.CheckGraph(g)
				}
				if refusal.Is(err) {
					continue
				}
				exempt, listed := elsewhere[s.Name]
				want := s.Applies(&changed) && !listed
				if counts := !slices.Equal(run(t, g, changed).Losses, was); counts != want {
					t.Errorf("%s, task %s, %s blocks, decoupled %v: %s %s instead of %q changes the "+
						"losses: %v, want %v %s",
						o.Model, o.Task, o.BlockForm, o.Decoupled, s.Name, text, s.Text(&o),
						counts, want, exempt.why)
				}
				if inTraining || s.Name == "norm" && text == "batch" {
					blocks, err := r.BlockSpecs(partition.All(g), 3, nil)
					require.NoError(t, err)
					if own := r.OwnPass(blocks); strings.Contains(own, "--"+s.Name+" ") != want {
						t.Errorf("%s, task %s, %s blocks, decoupled %v: an evaluation has a pass of its own because of "+
							"%q; --%s among them %v, want %v", o.Model, o.Task, o.BlockForm, o.Decoupled, own, s.Name,
							!want, want)
					}
				}
			}
		}
	}
}

// TestEachPipelineSettingCounts: each setting of the pipeline axis, with each of its choices, changes the
// losses.
func TestEachPipelineSettingCounts(t *testing.T) {
	g := tangle(t, 300, 100)
	o := apply(Defaults(), "model gcnii, layers 4, hidden 8, epochs 3, threads 1, parallel pipeline=2, "+
		"chunks 6, history-period 1")
	tried := map[string][]float64{}
	add := func(what string, o Options) {
		losses := run(t, g, o).Losses
		for other, has := range tried {
			if slices.Equal(losses, has) {
				t.Errorf("%s and %s give the same losses", what, other)
			}
		}
		tried[what] = losses
	}
	add("the defaults", o)
	for _, s := range setting.All() {
		if s.Group != setting.PipelineAxisGroup {
			continue
		}
		for _, text := range others(t, g, s, &o) {
			changed := o
			require.NoError(t, s.Set(&changed, text), "%s %s", s.Name, text)
			add(s.Name+" "+text, changed)
		}
	}
	if len(tried) < 8 {
		t.Errorf("%d trainings", len(tried))
	}
}

// others are texts of values that differ from o's. For a choice they are all others but auto, and but the
// schedule plateau, which TestPlateau looks at: it begins as constant does. TestInitScheme in package gnn
// looks at the initial weights: one of the schemes is the model's own.
func others(t *testing.T, g *graph.Graph, s setting.Setting, o *Options) []string {
	t.Helper()
	if e, listed := elsewhere[s.Name]; listed {
		return []string{e.other}
	}
	switch s.Name {
	case "init-scheme":
		return nil
	case "init":
		return []string{weightsFileOf(t, g, *o)}
	}
	if v := s.Text(o); s.Choices != nil {
		return slices.DeleteFunc(slices.Clone(s.Choices),
			func(word string) bool { return word == v || word == "auto" || word == optim.PlateauSchedule })
	}
	switch v := s.Value(o).(type) {
	case string, setting.Program: // of which the test does not know another
		return nil
	case bool:
		return []string{strconv.FormatBool(!v)}
	case int:
		return []string{strconv.Itoa(max(1, 2*v))}
	case axis.Chunks:
		return []string{strconv.Itoa(int(v) + 1)}
	case uint64:
		return []string{strconv.FormatUint(v+1, 10)}
	case task.Split:
		return []string{"1", "random:40/30/30"}
	case task.Shares:
		return []string{"60/20/20"}
	case float64:
		return []string{strconv.FormatFloat(v/2+.01, 'g', -1, 64)}
	}
	t.Fatalf("%s: no other value is known of a setting of the kind %s", s.Name, s.Kind())
	return nil
}

// weightsFileOf writes a file with the weights of a run.
func weightsFileOf(t *testing.T, g *graph.Graph, o Options) string {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, safetensors.Write(&file, run(t, g, o).Weights, nil))
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, os.WriteFile(path, file.Bytes(), 0o666))
	return path
}
