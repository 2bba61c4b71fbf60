package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/autograd"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/internal/safetensors"
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
	class := g.Types[0].Labels.Class
	g.Types[0].Labels, g.Metric = graph.Labels{Classes: 4}, ""
	for v := range class {
		for k := range 4 {
			y := float32((v + k + int(class[v])) % 2)
			if (v+k)%11 == 0 {
				y = float32(math.NaN())
			}
			g.Types[0].Labels.Multi = append(g.Types[0].Labels.Multi, y)
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
		{
			"gcn", "tensor=2", "", with(func(y *nn.Targets) { y.Loss = nn.Focal(2) }),
			"loss focal, focal-gamma 2",
		},
		{"sage", "", "partitions 3", plain, ""},
		{"sage", "graph=2", "precision bf16", plain, ""},
		{"sage", "graph=2", "label-input .5", plain, ""},
		{"sage", "", "another graph", plain, ""},
	} {
		t.Run(fmt.Sprint(c.model, " ", c.parallel, " ", c.words, c.builtin), func(t *testing.T) {
			job := func(loss nn.LossFunc, words string) *Job {
				j := &Job{Graph: tangle(t, 700, 3000), Options: ownOptions(c.model, c.parallel), Loss: loss}
				j.Options = apply(j.Options, words)
				switch c.words {
				case "several labels":
					j.Graph = severalLabels(j.Graph)
				case "another graph":
					j.Validate = &Job{Graph: elsewhereGraph(t, 300), Dataset: "other"}
				default:
					j.Options = apply(j.Options, c.words)
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
	want, rows := 0., g.Types[0].Splits[0].Val
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
		want += float64(1+v%3) * (math.Log(sum) - float64(z[g.Types[0].Labels.Class[v]]) + .25*entropy)
	}
	want /= float64(len(rows))
	assert.Near(t, want, r.ValLoss, 1e-6*want, "%d workers: validation loss", r.Workers)
}

// TestOwnLossOfValues: the squared error as a caller's own loss is the built-in one up to rounding.
func TestOwnLossOfValues(t *testing.T) {
	g := tangle(t, 700, 3000)
	class := g.Types[0].Labels.Class
	g.Types[0].Labels, g.Metric = graph.Labels{Columns: 2}, ""
	for v, c := range class {
		g.Types[0].Labels.Values = append(g.Types[0].Labels.Values, 100+float32(c), float32(v%13))
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

// crossEntropy is the cross-entropy of so many classes as a file, with an operation more before the sum over
// rows.
func crossEntropy(t *testing.T, classes int, last string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ce.json")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"version":1,"class":"ce","output":9,"operations":[
		{"op":"logits","shape":[%d]},{"op":"labels"},{"op":"log_softmax","in":[0]},{"op":"reshape","in":[1],"shape":[1]},
		{"op":"constant","shape":[%[1]d],"values":[%s]},{"op":"eq","in":[3,4]},{"op":"mul","in":[2,5]},
		{"op":"sum","in":[6]},{"op":"%s","in":[7]},{"op":"row_mean","in":[8]}]}`, classes,
		strings.Trim(strings.ReplaceAll(fmt.Sprint(seq(classes)), " ", ","), "[]"), last), 0o666))
	return path
}

func seq(n int) (all []int) {
	for k := range n {
		all = append(all, k)
	}
	return all
}

// TestLossFile: the cross-entropy from a file is the built-in one up to rounding, on every mesh, with
// partitions that take turns, in bfloat16, with labels in the input, where some workers have no training
// vertex, and with another graph to validate on. The plan is what the run takes, to the byte.
func TestLossFile(t *testing.T) {
	file := crossEntropy(t, 5, "neg")
	for _, c := range []struct{ model, parallel, words string }{
		{"sage", "graph=1", ""},
		{"gat", "graph=4", ""},
		{"gcn", "graph=2,tensor=2", ""},
		{"resgcn", "pipeline=2", ""},
		{"resgcn", "pipeline=2,graph=2", ""},
		{"sage", "", "partitions 3"},
		{"sage", "graph=2", "precision bf16"},
		{"sage", "graph=2", "label-input .5"},
		{"sage", "graph=3", "few"},
		{"sage", "", "another graph"},
	} {
		t.Run(fmt.Sprint(c.model, " ", c.parallel, " ", c.words), func(t *testing.T) {
			job := func(loss string) *Job {
				j := &Job{Graph: tangle(t, 700, 3000), Options: ownOptions(c.model, c.parallel)}
				j.Options.Loss = loss
				switch c.words {
				case "few":
					split := &j.Graph.Types[0].Splits[0]
					split.Train, split.Val = split.Train[:1], split.Val[:2]
				case "another graph":
					j.Validate = &Job{Graph: elsewhereGraph(t, 300), Dataset: "other"}
				default:
					j.Options = apply(j.Options, c.words)
				}
				return j
			}
			own, builtin := job(file), mustRun(t, job("auto"))
			got := mustRun(t, own)
			if own.Options.LabelInput == 0 { // with it fewer labels are hidden than the plan has
				got, _ = planAndRun(t, own)
			}
			for k, loss := range builtin.Losses {
				assert.Near(t, loss, got.Losses[k], 1e-6*loss, "losses %v, built in %v", got.Losses,
					builtin.Losses)
			}
			assert.Near(t, builtin.ValLoss, got.ValLoss, 1e-6*builtin.ValLoss, "validation loss")
		})
	}
}

// TestLossFileOfEdges: losses of values and of several labels of edges, from files, are the built-in ones, in
// a graph whose vertices have classes.
func TestLossFileOfEdges(t *testing.T) {
	for kind, file := range map[string]string{
		"values": `"output":4,"operations":[{"op":"logits","shape":[1]},{"op":"labels","shape":[1]},
			{"op":"sub","in":[0,1]},{"op":"square","in":[2]},{"op":"row_mean","in":[3]}]}`,
		"several": `"output":7,"operations":[{"op":"logits","shape":[2]},{"op":"labels","shape":[2]},
			{"op":"logsigmoid","in":[0]},{"op":"mul","in":[0,1]},{"op":"sub","in":[0,3]},{"op":"sub","in":[4,2]},
			{"op":"mean","in":[5]},{"op":"row_mean","in":[6]}]}`,
	} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "loss.json")
			require.NoError(t, os.WriteFile(path, []byte(`{"version":1,"class":"own",`+file), 0o666))
			g := labelEdges(t, tangle(t, 60, 40), 0, kind)
			for k, y := range g.Relations[0].Labels.Multi {
				if math.IsNaN(float64(y)) {
					g.Relations[0].Labels.Multi[k] = 0
				}
			}
			o := edgeLabelOptions("task edge, epochs 3")
			want := run(t, g, o)
			o.Loss = path
			got := run(t, g, o)
			for k, loss := range want.Losses {
				assert.Near(t, loss, got.Losses[k], 1e-6*loss, "epoch %d", k+1)
			}
		})
	}
}

// TestLossFileRefuses graphs that it is not for, and settings beside it. A loss that is no number ends the
// run.
func TestLossFileRefuses(t *testing.T) {
	for _, c := range []struct{ file, words, want string }{
		{crossEntropy(t, 4, "neg"), "", "--loss %s: the loss ce reads 4 logits of a vertex, and the graph's labels need 5"},
		{crossEntropy(t, 5, "neg"), "class-weights balanced", "--loss %s: it has weights of its own"},
		{crossEntropy(t, 5, "neg"), "label-smoothing .1", "--label-smoothing 0.1: belongs to --loss auto"},
		{crossEntropy(t, 5, "neg"), "task link", "--loss %s: belongs to --task vertex"},
		{crossEntropy(t, 5, "dropout"), "", "--loss %s: program: operation 8 (dropout): a loss reads logits"},
		{"hinge", "", "--loss hinge: unknown loss"},
		{"none.json", "", "--loss none.json: no such file or directory; it names the loss.json of a run"},
	} {
		o := ownOptions("sage", "graph=1")
		o = apply(o, c.words)
		o.Loss = c.file
		_, err := (&Job{Graph: tangle(t, 300, 10), Options: o}).Run(context.Background())
		assert.Refused(t, err, strings.ReplaceAll(c.want, "%s", c.file), c.words)
	}
	o := ownOptions("sage", "graph=2")
	o.Loss = crossEntropy(t, 5, "sqrt")
	_, err := (&Job{Graph: tangle(t, 300, 10), Options: o}).Run(context.Background())
	var diverged *Diverged
	if !errors.As(err, &diverged) || diverged.Epoch != 1 {
		t.Errorf("%v, want a run that diverges in its first epoch", err)
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
		o = apply(o, change)
		_, err := (&Job{Graph: g, Options: o, Loss: weighted}).Run(context.Background())
		if !refusal.Is(err) || !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// programOptions are options with a program that has parameters of these shapes, with initial values, and the
// rest of its text.
func programOptions(t *testing.T, shapes map[string][]int, text string) Options {
	t.Helper()
	init, parameters := nn.State{}, []string{}
	for name, shape := range shapes {
		init[name] = nn.Tensor{Shape: shape, Float32: sixteenths(shape)}
		parameters = append(parameters,
			fmt.Sprintf(`{"name":%q,"shape":[%d,%d],"trained":true}`, name, shape[0], shape[1]))
	}
	var weights bytes.Buffer
	require.NoError(t, safetensors.Write(&weights, init, nil))
	o, folder := Defaults(), t.TempDir()
	o.Init, o.Program.Path = filepath.Join(folder, "init.safetensors"), filepath.Join(folder, "program.json")
	require.NoError(t, os.WriteFile(o.Init, weights.Bytes(), 0o666))
	text = fmt.Sprintf(`{"version":1,"class":"Net","parameters":[%s],%s}`, strings.Join(parameters, ","), text)
	require.NoError(t, os.WriteFile(o.Program.Path, []byte(text), 0o666))
	return o
}

// sixteenths are numbers for a matrix, whose sums of few are exact.
func sixteenths(shape []int) (values []float32) {
	for k := range shape[0] * shape[1] {
		values = append(values, float32(k%7-2)/16)
	}
	return values
}
