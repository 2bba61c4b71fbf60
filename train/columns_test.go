package train

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
)

// fromTable is a graph whose features are of columns: a, with a mark where it has no value, a category c of
// two values, a date d, and numbers.
func fromTable(t *testing.T) *graph.Graph {
	t.Helper()
	g := *tangle(t, 700, 3000).Copy()
	g.Types[0].Features.Dense = slices.Clone(g.Types[0].Features.Dense)
	table := &columns.Table{Columns: columns.List{
		{Name: "a", Kind: columns.Number, Mean: 3, Gaps: true},
		{Name: "c", Kind: columns.Category, Categories: []string{"x", "y"}},
		{Name: "d", Kind: columns.Date},
	}}
	for k := 5; k < g.Types[0].Features.Columns; k++ {
		table.Columns = append(table.Columns, columns.Column{Name: fmt.Sprint("n", k), Kind: columns.Number})
	}
	for v := range g.Types[0].Count {
		row := g.Types[0].Features.Row(v)
		row[0], row[1], row[2], row[3], row[4] = 100*row[0], 0, 0, 0, 18_000+1000*row[4]
		if row[2+v%2] = 1; v%5 == 0 {
			row[0], row[1] = 3, 1
		}
	}
	g.Types[0].Table = table
	return &g
}

// inOtherOrder is a graph of fromTable whose table has a further column, the others from the last to the
// first, another category, and another mean.
func inOtherOrder(g *graph.Graph) *graph.Graph {
	other, n := *g.Copy(), g.Types[0].Features.Columns
	list := columns.List{{Name: "new", Kind: columns.Boolean}}
	for _, c := range slices.Backward(g.Types[0].Table.Columns) {
		list = append(list, c)
	}
	list[len(list)-1].Mean = 7
	list[len(list)-2].Categories = []string{"w", "x", "y"}
	list[len(list)-2].Counts = []int64{9, 0, 0}
	other.Types[0].Features = graph.Features{Columns: n + 2}
	for v := range g.Types[0].Count {
		row := g.Types[0].Features.Row(v)
		to := []float32{1}
		for k := n - 1; k > 3; k-- {
			to = append(to, row[k])
		}
		to = append(to, 0, row[2], row[3], row[0], row[1])
		if row[1] == 1 {
			to[len(to)-2] = 7
		}
		other.Types[0].Features.Dense = append(other.Types[0].Features.Dense, to...)
	}
	other.Types[0].Table = &columns.Table{Columns: list}
	return &other
}

// likeNotes say what is new in a graph of inOtherOrder.
var likeNotes = []string{
	`column c: 9 rows have values that are not known, as "w", which count as other`,
	"columns that are not used: new",
}

// TestLike: on a graph whose columns stand in another order, with another column, category and mean, a job
// that is asked for the columns of the first one trains and predicts to the same bits, on all meshes.
func TestLike(t *testing.T) {
	g := fromTable(t)
	other, asked := inOtherOrder(g), (&Job{Graph: g}).Columns()
	o := apply(Defaults(), "model sage, hidden 8, epochs 2, threads 1")
	weights := mustRun(t, &Job{Graph: g, Options: o}).Weights
	predict := func(j *Job) []float32 {
		p, err := j.Predict(context.Background(), weights, Logits)
		require.NoError(t, err)
		return p.Logits
	}
	for _, words := range []string{
		"", "precision bf16", "parallel graph=3", "parallel tensor=2", "parallel graph=2, precision bf16",
		"parallel pipeline=2", "parallel graph=1, partitions 4", "normalize-features row",
		"normalize-features standard",
	} {
		for name, results := range map[string]func(*Job) []float32{
			"training":   func(j *Job) []float32 { return mustRun(t, j).Logits },
			"prediction": predict,
			"prediction of some": func(j *Job) []float32 {
				if r, err := j.Options.Resolve(); err == nil && r.CheckSome() == nil {
					j.Vertices = []int32{5, 3, 600}
				}
				return predict(j)
			},
		} {
			if name != "training" && words == "normalize-features row" {
				continue // the weights are those of standardised features
			}
			j := &Job{Graph: other, Options: apply(o, words)}
			notes, err := j.Like(asked)
			require.NoError(t, err)
			assert.Equal(t, likeNotes, notes)
			whole := j.Counts()
			assert.Equal(t, g.Types[0].Features.Columns, whole.Types[0].FeatureColumns, "features")
			want := results(&Job{Graph: g, Options: apply(o, words)})
			assert.Equal(t, true, slices.Equal(want, results(j)), "%s: other bits in %s", words, name)
		}
	}
}

// TestPartsStay: jobs and workers that read the same parts together change none of them. The job has its own
// columns once again after another one had others, or smoothed probabilities, on the parts.
func TestPartsStay(t *testing.T) {
	g := fromTable(t)
	o := apply(Defaults(), "model sage, hidden 8, epochs 2, threads 1")
	o.Parallel = "graph=2,tensor=2"
	job := func(source *graph.Graph, parts *Parts) *Job {
		return &Job{Graph: source, Options: o, Parts: parts}
	}
	other := inOtherOrder(g)
	parts, err := job(other, nil).MakeParts(t.Context())
	require.NoError(t, err)
	own := mustRun(t, job(other, nil)).Logits
	like := job(nil, parts)
	_, err = like.Like((&Job{Graph: g}).Columns())
	require.NoError(t, err)
	assert.Equal(t, mustRun(t, job(g, nil)).Logits, mustRun(t, like).Logits, "in the columns of another graph")
	smoothing := job(nil, parts)
	smoothing.Options = apply(Defaults(), "parallel graph=2, threads 1")
	classes := g.Types[0].Labels.Classes
	_, err = smoothing.Smooth(t.Context(), gnn.Smoothing{Smooth: gnn.Rounds{Count: 2, Teleport: .5}},
		make([]float32, g.Vertices()*classes), Known{})
	require.NoError(t, err)
	assert.Equal(t, own, mustRun(t, job(nil, parts)).Logits, "in its own columns")
}

// TestLikeRefuses names what a graph lacks, and says where features have no names.
func TestLikeRefuses(t *testing.T) {
	g := fromTable(t)
	asked := (&Job{Graph: g}).Columns()
	for want, list := range map[string]columns.List{
		"there is no column a, d": slices.Concat(g.Types[0].Table.Columns[1:2], g.Types[0].Table.Columns[3:]),
		"column d is a number, where it was a date": slices.Concat(g.Types[0].Table.Columns[:2],
			columns.List{{Name: "d", Kind: columns.Number}}, g.Types[0].Table.Columns[3:]),
	} {
		other := *g.Copy()
		other.Types[0].Table = &columns.Table{Columns: list}
		other.Types[0].Features = graph.Features{
			Columns: list.Width(), Dense: make([]float32, list.Width()*g.Types[0].Count),
		}
		_, err := (&Job{Graph: &other}).Like(asked)
		assert.Refused(t, err, want)
	}
	other := *g.Copy()
	other.Types[0].Table = nil
	j := &Job{Graph: &other}
	notes, err := j.Like(asked)
	require.NoError(t, err)
	assert.Equal(t, []string{"the features have no names, and are taken for those of the model in their order"},
		notes)
	assert.Equal(t, asked, j.Columns())
}

// TestAutoFeatures: numbers and dates of a table have a mean of 0 and a deviation of 1 in training, and what
// is 0 or 1 stays: to the bits of a graph that is scaled in float64 beforehand. Of several types each has its
// own means. Features without a table stay.
func TestAutoFeatures(t *testing.T) {
	g := fromTable(t)
	o := apply(Defaults(), "model sage, hidden 8, epochs 3, lr .001, threads 1")
	r := mustRun(t, &Job{Graph: g, Options: o})
	scaled, n := *g.Copy(), float64(g.Types[0].Count)
	scaled.Types[0].Table, scaled.Types[0].Features.Dense = nil, slices.Clone(g.Types[0].Features.Dense)
	for k := range g.Types[0].Features.Columns {
		mean, square := 0.0, 0.0
		for v := range g.Types[0].Count {
			mean += float64(g.Types[0].Features.Row(v)[k]) / n
		}
		for v := range g.Types[0].Count {
			square += math.Pow(float64(g.Types[0].Features.Row(v)[k])-mean, 2) / n
		}
		deviation := math.Sqrt(square)
		if k >= 1 && k <= 3 {
			mean, deviation = 0, 1
		}
		assert.Near(t, mean, float64(r.Weights["features.mean"].Float32[k]), 1e-6*max(1, mean), "mean %d", k)
		assert.Near(t, deviation, float64(r.Weights["features.deviation"].Float32[k]), 1e-5*deviation,
			"deviation %d", k)
		for v := range g.Types[0].Count {
			x := &scaled.Types[0].Features.Row(v)[k]
			*x = float32((float64(*x) - mean) / deviation)
		}
	}
	want := mustRun(t, &Job{Graph: &scaled, Options: o})
	if d := away(want.Losses, r.Losses); d > 1e-5 {
		t.Errorf("the losses differ by %.1e from those of scaled features", d)
	}
	assert.Equal(t, 0, len(want.Weights["features.mean"].Float32), "means without a table")

	types := severalTypes(t)
	types.Types[1].Table = &columns.Table{Columns: columns.List{
		{Name: "x", Kind: columns.Number}, {Name: "y", Kind: columns.Boolean},
	}}
	o.Model = "rgcn"
	r = mustRun(t, &Job{Graph: types, Options: o})
	// x is (2i mod 7)/7: of 40 values five times 0/7 to 6/7, and 0, 2, 4, 6 and 1 sevenths again
	assert.Near(t, 118./7/40, float64(r.Weights["features.b.mean"].Float32[0]), 1e-6)
	assert.Equal(t, 0, r.Weights["features.b.mean"].Float32[1])
	assert.Equal(t, 1, r.Weights["features.b.deviation"].Float32[1])
	_, there := r.Weights["features.a.mean"]
	assert.Equal(t, false, there, "means of a type without a table")
	p, err := (&Job{Graph: types, Options: o}).Predict(context.Background(), r.Weights, Logits)
	require.NoError(t, err)
	assert.Equal(t, true, slices.Equal(r.Logits, p.Logits), "predictions differ")
	o.NormalizeFeatures = "standard"
	r = mustRun(t, &Job{Graph: types, Options: o})
	assert.Equal(t, types.Types[0].Features.Columns, len(r.Weights["features.a.mean"].Float32), "means")
}

// TestStartedStandards: a training that starts from weights on another graph has their means and deviations,
// also when it continues without their file.
func TestStartedStandards(t *testing.T) {
	g := fromTable(t)
	o := apply(Defaults(), "model sage, hidden 8, epochs 3, threads 1")
	weights := mustRun(t, &Job{Graph: g, Options: o}).Weights
	other := inOtherOrder(g)
	for v := range other.Types[0].Count { // another mean of the column d
		other.Types[0].Features.Row(v)[other.Types[0].Features.Columns-6] += 5000
	}
	var file bytes.Buffer
	require.NoError(t, nn.EncodeState(&file, weights))
	for _, mesh := range []string{"", "parallel graph=2", "parallel tensor=2", "parallel pipeline=2"} {
		o.Init = filepath.Join(t.TempDir(), "init.safetensors")
		require.NoError(t, os.WriteFile(o.Init, file.Bytes(), 0o600))
		job := func() *Job {
			j := &Job{Graph: other, Options: apply(o, mesh)}
			_, err := j.Like((&Job{Graph: g}).Columns())
			require.NoError(t, err)
			return j
		}
		whole := mustRun(t, job())
		folder, stopped := t.TempDir(), job()
		follow(stopped, folder, nil)
		_, err := stopped.Run(stopAfter(stopped, 2))
		require.NoError(t, err)
		require.NoError(t, os.Remove(o.Init))
		again := job()
		follow(again, folder, openLast(t, folder))
		continued := mustRun(t, again)
		for _, name := range []string{"features.mean", "features.deviation"} {
			assert.Equal(t, weights[name], whole.Weights[name], "%s, %q", name, mesh)
			assert.Equal(t, weights[name], continued.Weights[name], "%s, continued, %q", name, mesh)
		}
		assert.Equal(t, true, slices.Equal(whole.Logits, continued.Logits), "continued: other bits, %q", mesh)
	}
	o.Init, o.Epochs = "", 1
	own := &Job{Graph: other, Options: o}
	_, err := own.Like((&Job{Graph: g}).Columns())
	require.NoError(t, err)
	if k := 4; math.Abs(float64(mustRun(t, own).Weights["features.mean"].Float32[k]-
		weights["features.mean"].Float32[k]-5000)) > 1 {
		t.Error("the graphs have the same means")
	}
}
