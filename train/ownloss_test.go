package train

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"weft/autograd"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/nn"
)

// ownOptions are those of a short training.
func ownOptions(model, parallel string) Options {
	o := Defaults()
	o.Model, o.Parallel, o.Layers, o.Hidden, o.Epochs, o.Seed, o.LR, o.Heads = model, parallel,
		3, 16, 3, 7, .01, 2
	if strings.HasPrefix(parallel, "pipeline") { // one chunk for each partition: a stage's plan is exact
		o.Chunks, o.Layers = 1, 4
		if strings.Contains(parallel, "graph=2") {
			o.Chunks = 2
		}
	}
	return o
}

// severalLabels gives a graph several labels for each vertex, some of which are missing.
func severalLabels(g *graph.Graph) *graph.Graph {
	class := g.Labels.Class
	g.Labels, g.Metric = graph.Labels{Classes: 4}, ""
	for v := range class {
		for k := range 4 {
			y := float32((v + k + int(class[v])) % 2)
			if (v+k)%11 == 0 {
				y = float32(math.NaN())
			}
			g.Labels.Multi = append(g.Labels.Multi, y)
		}
	}
	return g
}

// TestOwnCrossEntropy: the cross-entropy as a caller's own loss has the bits of the built-in one in each
// loss, logit and validation loss, on every mesh and for every kind of labels, with partitions that take
// turns, in bfloat16, with labels in the input, and with another graph to validate on. The plan is what the
// run takes, to the byte.
func TestOwnCrossEntropy(t *testing.T) {
	with := func(change func(*nn.Targets)) nn.LossFunc {
		return func(logits *autograd.Var, y nn.Labels) *autograd.Var {
			change(&y.Targets)
			return nn.CrossEntropy(logits, y.Targets)
		}
	}
	plain := with(func(*nn.Targets) {})
	for _, c := range []struct {
		model, parallel, words string
		loss                   nn.LossFunc
		builtin                string
	}{
		{"sage", "graph=1", "", plain, ""},
		{"gat", "graph=4", "", plain, ""},
		{"gcn", "graph=2,tensor=2", "", plain, ""},
		{"resgcn", "pipeline=2", "", plain, ""},
		{"resgcn", "pipeline=2,graph=2", "", plain, ""},
		{"sage", "graph=2", "several labels", plain, ""},
		{"sage", "graph=2", "", with(func(y *nn.Targets) { y.Smoothing = .1 }), "label-smoothing .1"},
		{"gcn", "tensor=2", "", with(func(y *nn.Targets) { y.Loss = nn.Focal(2) }), "loss focal, focal-gamma 2"},
		{"sage", "", "partitions 3", plain, ""},
		{"sage", "graph=2", "precision bf16", plain, ""},
		{"sage", "graph=2", "label-input .5", plain, ""},
		{"sage", "", "another graph", plain, ""},
	} {
		t.Run(fmt.Sprint(c.model, " ", c.parallel, " ", c.words, c.builtin), func(t *testing.T) {
			job := func(loss nn.LossFunc, words string) *Job {
				j := &Job{Graph: tangle(t, 700, 3000), Options: ownOptions(c.model, c.parallel), Loss: loss}
				j.Options = given(j.Options, words)
				switch c.words {
				case "several labels":
					j.Graph = severalLabels(j.Graph)
				case "another graph":
					j.Validate = &Job{Graph: elsewhereGraph(t, 300), Dataset: "other"}
				default:
					j.Options = given(j.Options, c.words)
				}
				return j
			}
			own, builtin := job(c.loss, ""), mustRun(t, job(nil, c.builtin))
			got := mustRun(t, own)
			if own.Options.LabelInput == 0 { // with it fewer labels are hidden than the plan has
				got, _ = planAndRun(t, own)
			}
			assert.Equal(t, builtin.Losses, got.Losses)
			assert.Equal(t, builtin.Logits, got.Logits)
			assert.Equal(t, builtin.ValLoss, got.ValLoss)
		})
	}
}

// weighted is a loss of operations on a tape, with a weight for each vertex by its id: the cross-entropy and
// a penalty on confidence (Pereyra et al. 2017), Σ_i w_i·(−ln p_iy + ¼·Σ_c p_ic·ln p_ic).
func weighted(logits *autograd.Var, y nn.Labels) *autograd.Var {
	weights := autograd.Filled(logits, 1, func(values []float32) {
		for i, v := range y.Vertices {
			values[i] = float32(1 + v%3)
		}
	})
	logs := nn.LogSoftmax(logits)
	penalty := autograd.Multiply(autograd.Exp(logs), logs)
	terms := autograd.Combine(-1, autograd.Multiply(logs, nn.OneHot(logits, y.Targets)), .25, penalty)
	return autograd.HeadScale(terms, weights)
}

// weightedByHand compares the validation loss by weighted with double precision, from a run's logits.
func weightedByHand(t *testing.T, g *graph.Graph, r *Result) {
	t.Helper()
	want, rows := 0., g.Splits[0].Val
	for _, v := range rows {
		z := r.Logits[v*5 : (v+1)*5]
		sum, entropy := 0., 0.
		for _, x := range z {
			sum += math.Exp(float64(x))
		}
		for _, x := range z {
			log := float64(x) - math.Log(sum)
			entropy += math.Exp(log) * log
		}
		want += float64(1+v%3) * (math.Log(sum) - float64(z[g.Labels.Class[v]]) + .25*entropy)
	}
	want /= float64(len(rows))
	assert.Near(t, want, r.ValLoss, 1e-6*want, "%d workers: validation loss", r.Workers)
}

// TestOwnLossOfValues: the squared error as a caller's own loss is the built-in one up to rounding.
func TestOwnLossOfValues(t *testing.T) {
	g := tangle(t, 700, 3000)
	class := g.Labels.Class
	g.Labels, g.Metric = graph.Labels{Columns: 2}, ""
	for v, c := range class {
		g.Labels.Values = append(g.Labels.Values, 100+float32(c), float32(v%13))
	}
	squared := func(output *autograd.Var, y nn.Labels) *autograd.Var {
		d := autograd.Combine(1, output, -1, output.Tape().Constant(y.Values, output.RowSet()))
		return autograd.Multiply(d, d)
	}
	for _, parallel := range []string{"graph=1", "graph=2"} {
		o := ownOptions("sage", parallel)
		own, _ := planAndRun(t, &Job{Graph: g, Options: o, Loss: squared})
		builtin := run(t, g, o)
		for k, loss := range own.Losses {
			assert.Near(t, builtin.Losses[k], loss, 1e-5*loss, "%s: losses %v, built in %v", parallel,
				own.Losses, builtin.Losses)
		}
	}
}

// TestOwnLossRefuses settings that it takes the place of, and the task that has no labels.
func TestOwnLossRefuses(t *testing.T) {
	g := tangle(t, 300, 10)
	for want, change := range map[string]string{
		"--task link: ":              "task link",
		"--loss focal: ":             "loss focal",
		"--class-weights balanced: ": "class-weights balanced",
		"--label-smoothing 0.1: ":    "label-smoothing .1",
	} {
		o := ownOptions("sage", "graph=1")
		o = given(o, change)
		_, err := (&Job{Graph: g, Options: o, Loss: weighted}).Run(context.Background())
		if !refusal.Is(err) || !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
