package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/train/plan"
)

// TestSparseProgram compares programs on sparse features with runs on the same features, dense.
// Where nothing but products reads the features, no worker ever holds their dense form: memory is below it.
func TestSparseProgram(t *testing.T) {
	const columns = 1000
	sparse, dense := wordy(t, columns)
	matrix := int64(4 * columns * sparse.Vertices())
	// conv(x) + x·u of each layer, the first on dropout(x)
	layer := func(x, at int, v, u string) string {
		return fmt.Sprintf(`{"op":"parameter","name":%q},{"op":"linear","in":[%d,%d]},
			{"op":"gather","in":[%d],"end":"source"},{"op":"scatter","in":[%d],"reduce":"mean"},
			{"op":"parameter","name":%q},{"op":"linear","in":[%d,%d]},{"op":"add","in":[%d,%d]},`,
			v, x, at, at+1, at+2, u, x, at+4, at+3, at+5)
	}
	for name, c := range map[string]struct {
		first    string // the operations on the features, of which the last has 8 columns
		products bool
	}{
		"products": {`{"op":"dropout","in":[0],"p":0.5,"path":"a"},` + layer(1, 2, "v", "u") +
			`{"op":"relu","in":[8]},`, true},
		"aggregate, then a product": {`{"op":"gather","in":[0],"end":"source"},
			{"op":"scatter","in":[1],"reduce":"mean"},{"op":"parameter","name":"v"},{"op":"linear","in":[2,3]},
			{"op":"parameter","name":"u"},{"op":"linear","in":[0,5]},{"op":"constant","values":[0]},
			{"op":"add","in":[6,7]},{"op":"add","in":[4,8]},`, true},
		"GIN": {`{"op":"gather","in":[0],"end":"source"},{"op":"scatter","in":[1],"reduce":"mean"},
			{"op":"add","in":[0,0]},{"op":"sub","in":[2,3]},{"op":"parameter","name":"v"},
			{"op":"linear","in":[4,5]},{"op":"parameter","name":"u"},{"op":"linear","in":[0,7]},
			{"op":"add","in":[6,8]},`, true},
		"two hops side by side": {`{"op":"gather","in":[0],"end":"source"},
			{"op":"scatter","in":[1],"reduce":"mean"},{"op":"gather","in":[2],"end":"source"},
			{"op":"scatter","in":[3],"reduce":"mean"},{"op":"parameter","name":"v"},
			{"op":"parameter","name":"u"},{"op":"cat","in":[5,6],"dim":1},{"op":"cat","in":[0,4]},
			{"op":"linear","in":[8,7]},`, true},
		"layers that read them again": {`{"op":"parameter","name":"v"},{"op":"linear","in":[0,1]},
			{"op":"relu","in":[2]},{"op":"gather","in":[3],"end":"source"},
			{"op":"scatter","in":[4],"reduce":"mean"},{"op":"parameter","name":"u"},
			{"op":"linear","in":[0,6]},{"op":"add","in":[5,7]},{"op":"relu","in":[8]},`, true},
		"a maximum and a product": {`{"op":"gather","in":[0],"end":"source"},
			{"op":"scatter","in":[1],"reduce":"max"},{"op":"parameter","name":"v"},{"op":"linear","in":[2,3]},
			{"op":"parameter","name":"u"},{"op":"linear","in":[0,5]},{"op":"reshape","in":[6],"shape":[8]},
			{"op":"add","in":[4,7]},{"op":"relu","in":[8]},`, false},
		"dropout and a maximum": {`{"op":"dropout","in":[0],"p":0.5,"path":"a"},
			{"op":"gather","in":[1],"end":"source"},{"op":"scatter","in":[2],"reduce":"max"},
			{"op":"parameter","name":"v"},{"op":"linear","in":[3,4]},{"op":"parameter","name":"u"},
			{"op":"linear","in":[1,6]},{"op":"add","in":[5,7]},{"op":"relu","in":[8]},`, false},
	} {
		shapes := map[string][]int{"v": {8, columns}, "u": {8, columns}, "w": {5, 8}, "b": {5, 8}}
		o := programOptions(t, shapes, `"operations":[{"op":"features","shape":[1000]},`+c.first+
			strings.TrimSuffix(layer(9, 10, "w", "b"), ",")+`],"output":16`)
		o.Optimizer, o.Epochs, o.LR, o.Threads = "sgd", 2, .1, 1
		for _, parallel := range []string{"graph=1", "graph=2", "tensor=2", "pipeline=2"} {
			o.Parallel = parallel
			if o.Chunks = 0; parallel == "pipeline=2" {
				o.Chunks = 1
			}
			what := name + ", " + parallel
			explainsDense(t, what, &Job{Graph: sparse, Options: o}, c.products)
			want := mustRun(t, &Job{Graph: dense, Options: o})
			got, peak := planAndRun(t, &Job{Graph: sparse, Options: o})
			for k, loss := range got.Losses {
				assert.Near(t, want.Losses[k], loss, 1e-6, "%s: loss %d", what, k)
			}
			for k, x := range got.Logits {
				assert.Near(t, float64(want.Logits[k]), float64(x), 1e-5, "%s: logit %d", what, k)
			}
			if below := peak < matrix; c.products && !below {
				t.Errorf("%s: %d bytes, and the features' dense form has %d", what, peak, matrix)
			}
		}
	}
}

// explainsDense fails unless a plan says whether an operation reads the dense form of the features.
func explainsDense(t *testing.T, what string, j *Job, stays bool) {
	t.Helper()
	planned, err := j.Plan(context.Background())
	require.NoError(t, err)
	found := false
	for _, l := range planned.Workers[0].Layers {
		found = found || l == plan.Layer{Name: "features", What: "are sparse, and dense for aggregate"}
	}
	assert.Equal(t, !stays, found, "%s: a plan says that features are made dense", what)
}

// TestSparseBits: GraphSAGE as a program has the bits of the named model on sparse features, and never their
// dense form: its memory is below that.
func TestSparseBits(t *testing.T) {
	const columns = 1000
	g, _ := wordy(t, columns)
	named := apply(Defaults(), "model sage, layers 2, hidden 8, dropout 0, norm none, lr .1, threads 1, epochs 1")
	start := mustRun(t, &Job{Graph: g, Options: named}).Weights
	var weights bytes.Buffer
	require.NoError(t, safetensors.Write(&weights, start, nil))
	named.Init, named.Epochs = filepath.Join(t.TempDir(), "init.safetensors"), 3
	require.NoError(t, os.WriteFile(named.Init, weights.Bytes(), 0o666))

	var parameters []string
	for name, v := range start {
		shape, err := json.Marshal(v.Shape)
		require.NoError(t, err)
		parameters = append(parameters, fmt.Sprintf(`{"name":%q,"shape":%s,"trained":true}`, name, shape))
	}
	layer := func(x int, conv string) string {
		return fmt.Sprintf(`{"op":"gather","in":[%d],"end":"source"},
			{"op":"scatter","in":[%d],"reduce":"mean"},
			{"op":"parameter","name":"%[3]s.lin_l.weight"},{"op":"parameter","name":"%[3]s.lin_l.bias"},
			{"op":"linear","in":[%[4]d,%[5]d,%[6]d]},{"op":"parameter","name":"%[3]s.lin_r.weight"},
			{"op":"linear","in":[%[1]d,%[7]d]},{"op":"add","in":[%[8]d,%[9]d]}`,
			x, x+1, conv, x+2, x+3, x+4, x+6, x+5, x+7)
	}
	own := named
	own.Model, own.Program.Path = Defaults().Model, filepath.Join(t.TempDir(), "program.json")
	text := fmt.Sprintf(`{"version":1,"class":"Net","parameters":[%s],"operations":[
		{"op":"features","shape":[%d]},%s,{"op":"relu","in":[8]},%s],"output":17}`,
		strings.Join(parameters, ","), columns, layer(0, "convs.0"), layer(9, "convs.1"))
	require.NoError(t, os.WriteFile(own.Program.Path, []byte(text), 0o666))

	want := mustRun(t, &Job{Graph: g, Options: named})
	got, peak := planAndRun(t, &Job{Graph: g, Options: own})
	assert.Equal(t, want.Losses, got.Losses, "losses")
	assert.Equal(t, want.Weights, got.Weights, "weights")
	if matrix := int64(4 * columns * g.Vertices()); peak >= matrix {
		t.Errorf("%d bytes, and the features' dense form has %d", peak, matrix)
	}
}

// wordy is a graph whose vertices have a few of many words, and the same graph with dense features.
func wordy(t *testing.T, columns int) (sparse, dense *graph.Graph) {
	sparse = tangle(t, 700, 3000)
	dense = sparse.Copy()
	s := graph.Features{Columns: columns, Indptr: []int64{0}}
	d := graph.Features{Columns: columns, Dense: make([]float32, sparse.Vertices()*columns)}
	for v := range sparse.Vertices() {
		words := []int32{}
		for k := range 9 {
			words = append(words, int32((v*37+k*k*111+int(sparse.Types[0].Labels.Class[v]))%columns))
		}
		slices.Sort(words)
		for k, word := range slices.Compact(words) {
			s.Indices, s.Data = append(s.Indices, word), append(s.Data, float32((v+k)%5-1)/4)
			d.Dense[v*columns+int(word)] = s.Data[len(s.Data)-1]
		}
		s.Indptr = append(s.Indptr, int64(len(s.Data)))
	}
	sparse.Types[0].Features, dense.Types[0].Features = s, d
	return sparse, dense
}
