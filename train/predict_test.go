package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/nn"
)

// TestPredictOverflows: Predict fails if a prediction is not finite, on any number of workers.
func TestPredictOverflows(t *testing.T) {
	g, o := tangled(t), networks()["gin"]
	o.Norm = "none"
	weights := run(t, g, o).Weights
	for _, w := range weights {
		for i := range w.Float32 {
			w.Float32[i] = 1e30
		}
	}
	for _, j := range []*Job{{Graph: g, Options: o}, divided(t, g, o, 2, nil)} {
		j.OnLogits = func(Rows) error { t.Error("logits are passed on"); return nil }
		_, err := j.Predict(context.Background(), weights, Logits)
		var common *Common
		if !errors.As(err, &common) ||
			!strings.HasPrefix(err.Error(), "the weights give values that are not finite") {
			t.Errorf("got %v", err)
		}
	}
}

// TestVerticesAreRefused refuses an empty list, a vertex twice, a vertex that does not exist, and a mesh that
// cannot infer listed vertices.
func TestVerticesAreRefused(t *testing.T) {
	g, o := tangled(t), networks()["gcn"]
	weights := run(t, g, o).Weights
	sliced := o
	sliced.Parallel = "tensor=2"
	for _, c := range []struct {
		options Options
		list    []int32
		want    string
	}{
		{o, []int32{}, "vertices: names no vertex"},
		{o, []int32{1, 2, 1}, "vertices: entry 3, vertex 1, is out of the range"},
		{
			o,
			[]int32{int32(g.Vertices())},
			fmt.Sprintf("vertices: entry 1, vertex %d, is out of the range", g.Vertices()),
		},
		{o, []int32{0, -1}, "vertices: entry 2, vertex -1, is out of the range"},
		{sliced, []int32{0}, "give --parallel graph=2"},
	} {
		_, err := (&Job{Graph: g, Options: c.options, Query: Query{Vertices: c.list}}).
			Predict(context.Background(), weights, Logits)
		assert.Refused(t, err, c.want, c.list)
	}
}

// eachRank runs work as each of k connected processes of a job, and returns their errors.
func eachRank(t *testing.T, j *Job, k int, work func(rank int, rankJob *Job) error) []error {
	t.Helper()
	parts, err := j.MakeParts(t.Context())
	require.NoError(t, err)
	errs := make([]error, k)
	var all sync.WaitGroup
	for rank, end := range comm.InProcess(k) {
		rankJob := *j
		rankJob.Comm, rankJob.Parts = comm.New(end, 0), parts
		all.Go(func() { errs[rank] = work(rank, &rankJob) })
	}
	all.Wait()
	return errs
}

// TestWeightsOfEachRank: if one rank cannot load the weights, or has others, all ranks refuse them, in a
// prediction and at the start of a training.
func TestWeightsOfEachRank(t *testing.T) {
	g, o := tangled(t), networks()["sage"]
	good := run(t, g, o).Weights
	other := func(change func(nn.State)) nn.State {
		s := maps.Clone(good)
		change(s)
		return s
	}
	changed := func(name string) nn.State {
		return other(func(s nn.State) {
			w := s[name]
			w.Float32 = slices.Clone(w.Float32)
			w.Float32[0]++
			s[name] = w
		})
	}
	const differs = "worker 1 has read other weights than worker 0: all machines need the same file"
	for name, c := range map[string]struct {
		theirs nn.State
		want   string
	}{
		"the same":       {good, ""},
		"another weight": {changed("convs.0.lin_l.weight"), differs},
		"another buffer": {changed("norms.0.module.running_mean"), differs},
		"a missing weight": {other(func(s nn.State) {
			delete(s, "convs.2.lin_l.bias")
		}), "rank 1: the weights lack convs.2.lin_l.bias [5]; was the model built with the same settings?"},
	} {
		weightsOf := func(rank int) nn.State { return []nn.State{good, c.theirs}[rank] }
		predicted := eachRank(t, divided(t, g, o, 2, nil), 2, func(rank int, rankJob *Job) error {
			_, err := rankJob.Predict(context.Background(), weightsOf(rank), Logits)
			return err
		})
		dir := t.TempDir()
		file := func(rank int) string { return filepath.Join(dir, fmt.Sprint(rank)) }
		trained := eachRank(t, divided(t, g, o, 2, nil), 2, func(rank int, rankJob *Job) error {
			rankJob.Options.Init, rankJob.Options.Epochs = file(rank), 1
			f, err := os.Create(file(rank))
			require.NoError(t, err)
			require.NoError(t, safetensors.Write(f, weightsOf(rank), nil))
			require.NoError(t, f.Close())
			_, err = rankJob.Run(context.Background())
			return err
		})
		for rank := range 2 {
			for _, end := range []struct {
				err  error
				want string
			}{{predicted[rank], c.want}, {trained[rank], "--init " + file(rank) + ": " + c.want}} {
				var common *Common
				refused := errors.As(end.err, &common) && refusal.Weights.In(end.err) && refusal.Is(end.err)
				if c.want == "" && end.err != nil ||
					c.want != "" && (!refused || end.err.Error() != end.want) {
					t.Errorf("%s: rank %d: %v, want %s", name, rank, end.err, end.want)
				}
			}
		}
	}
}

// TestFileCut truncates a file of the store while a run uses it.
func TestFileCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, tangled(t).Write(dir))
	for _, file := range []string{"features.npy", "labels.npy", "indices.npy"} {
		t.Run(file, func(t *testing.T) {
			g, err := graph.Open(dir)
			require.NoError(t, err)
			defer g.Close()
			path := filepath.Join(dir, file)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.WriteFile(path, whole, 0o666)) })
			cut := func() { require.NoError(t, os.Truncate(path, 64)) }
			o := networks()["sage"]
			job := &Job{Graph: g, Options: o}
			if file == "labels.npy" { // every evaluation with this metric reads it
				job.Options.Metric = "macro-f1"
				job.OnEpoch = func(Epoch) { cut() }
			} else {
				cut()
			}
			_, err = job.Run(context.Background())
			assert.ErrorContains(t, err, dir)
		})
	}
}

// TestEmbeddingsOfProgram: they are the input of the last layer with parameters, relu(x·vᵀ), also where weft
// multiplies by the last weight before the aggregation, and of some vertices alone.
func TestEmbeddingsOfProgram(t *testing.T) {
	shapes := map[string][]int{"v": {8, 13}, "w": {5, 8}}
	o := programOptions(t, shapes, `"operations":[{"op":"features","shape":[13]},{"op":"parameter","name":"v"},
		{"op":"linear","in":[0,1]},{"op":"relu","in":[2]},{"op":"parameter","name":"w","path":"last"},
		{"op":"linear","in":[3,4],"path":"last"},{"op":"gather","in":[5],"end":"source","path":"last"},
		{"op":"scatter","in":[6],"reduce":"max","path":"last"}],"output":7`)
	g := tangle(t, 700, 3000)
	weights, err := nn.ReadState(o.Init)
	require.NoError(t, err)
	for _, c := range []struct {
		parallel string
		vertices []int32
	}{{"graph=1", nil}, {"graph=2", nil}, {"tensor=2", nil}, {"graph=1", []int32{5, 600, 17}}} {
		o.Parallel = c.parallel
		j := Job{Graph: g, Options: o, Query: Query{Vertices: c.vertices}}
		p, err := j.Predict(t.Context(), weights, WithEmbeddings)
		require.NoError(t, err)
		assert.Equal(t, 5, len(p.Logits)/p.Vertices, "classes")
		for k, got := range p.Embeddings {
			at, column := k/8, k%8
			if c.vertices != nil {
				at = int(c.vertices[at])
			}
			want := 0.
			for i, x := range g.Types[0].Features.Dense[at*13 : at*13+13] {
				want += float64(x) * float64(weights["v"].Float32[column*13+i])
			}
			assert.Near(t, max(0, want), float64(got), 1e-5,
				"%s, vertex %d, column %d", c.parallel, at, column)
		}
		assert.Equal(t, 8*p.Vertices, len(p.Embeddings), c.parallel)
		if c.vertices != nil {
			served, err := (&Job{Graph: g, Options: o}).Predictor(t.Context(), weights)
			require.NoError(t, err)
			defer func() { assert.NoError(t, served.Close()) }()
			again, err := served.Predict(t.Context(), Query{Vertices: c.vertices}, WithEmbeddings)
			require.NoError(t, err)
			assert.Equal(t, p.Embeddings, again.Embeddings)
		}
	}
}
