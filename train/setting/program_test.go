package setting

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/optim"
	"weft/program"
)

// programOf writes a program of so many features into a file: an operation on them, and a product with w.
func programOf(t *testing.T, operation string) Options {
	t.Helper()
	o := Defaults()
	o.Program.Path = filepath.Join(t.TempDir(), "of.json")
	require.NoError(t, os.WriteFile(o.Program.Path, fmt.Appendf(nil, `{"version":1,"class":"Net","parameters":[
		{"name":"w","shape":[3,4],"trained":true,"rate":0.5,"decay":0.25,"aliases":["v"]},{"name":"b","shape":[4]},{"name":"c","shape":[4]}],
		"operations":[{"op":"features","shape":[4]},{"op":"parameter","name":"w"},%s,{"op":"add","in":[0,2]},
		{"op":"linear","in":[3,1]}],"output":4}`, operation), 0o666))
	return o
}

// TestProgramOperations: what a program takes over all vertices, and computes otherwise in training, decides
// about evaluations, predictions of some vertices, and chunks.
func TestProgramOperations(t *testing.T) {
	for operation, want := range map[string]struct {
		ownPass, overAll bool
		chunks           string
	}{
		`{"op":"relu","in":[0]}`:                  {false, false, ""},
		`{"op":"dropout","in":[0],"p":0.5}`:       {true, false, ""},
		`{"op":"batch_norm","in":[0],"eps":1e-5}`: {true, true, "a stage has one chunk at a time; take --chunks 1"},
		`{"op":"batch_norm","in":[0],"eps":1e-5,"mean":"b","variance":"c","momentum":0.1}`: {true, false, "a stage has one chunk at a time; take --chunks 1"},
		`{"op":"row_mean","in":[0]}`: {false, true, "a stage has one chunk at a time; take --chunks 1"},
		`{"op":"row_max","in":[0]}`:  {false, true, "a stage has one chunk at a time; take --chunks 1"},
		`{"op":"table","name":"w"}`:  {false, false, ""},
	} {
		o := programOf(t, operation)
		r, err := o.Resolve()
		require.NoError(t, err)
		schema := gnn.OneType(4, 0)
		schema.Types[0].Vertices = 3
		blocks, err := r.Blocks(schema, 3)
		require.NoError(t, err)
		assert.Equal(t, want.ownPass, r.OwnPass(blocks) != "", operation)
		assert.Equal(t, want.overAll, r.CheckSome() != nil, operation)
		o.Parallel, o.Chunks = "pipeline=2", 4
		if _, err = o.Resolve(); want.chunks == "" {
			assert.NoError(t, err, operation)
		} else {
			assert.Refused(t, err, want.chunks, operation)
		}
	}
}

// TestProgramAsModel: a program is the model of its options, and its parameters are told how to train.
func TestProgramAsModel(t *testing.T) {
	o := programOf(t, `{"op":"relu","in":[0]}`)
	o.Task = "link"
	r, err := o.Resolve()
	require.NoError(t, err)
	features, outputs := r.Widths(nil)
	assert.Equal(t, "Net 4 3", fmt.Sprint(r.Model, " ", features, " ", outputs))
	assert.Equal(t, 3, r.Kind.Outputs(nil), "columns of embeddings")
	_, err = r.Blocks(gnn.Schema{Types: make([]gnn.VertexType, 2), Relations: make([]gnn.Relation, 1)}, 3)
	assert.Refused(t, err, "one type of vertices", "typed")
	o.Decoder = "distmult"
	_, err = o.Resolve()
	assert.NoError(t, err)

	params := []*nn.Param{{Name: "w"}, {Name: "b"}, {Name: "of the task"}}
	r.Program.Fit(params)
	assert.Equal(t, "0.5 0.25, 0 true 1, 0", fmt.Sprint(params[0].Rate, " ", *params[0].OwnDecay, ", ",
		params[1].Rate, params[1].OwnDecay == nil && params[1].Fixed, params[1].Decay, ", ", params[2].Decay))
	weights := nn.State{"w": {}, "v": {}, "b": {}, "other": {}}
	r.Program.Unread(weights)
	assert.Equal(t, 1, len(weights))
	weights["w"] = nn.Tensor{Shape: []int{7}}
	r.Program.Alias(weights)
	assert.Equal(t, []int{7}, weights["v"].Shape)

	bare := counts(1, 0, 1)
	assert.Refused(t, r.CheckCounts(&bare, 3), "the graph has no features", "the program reads some")
	r.Program.Operations[0] = program.Operation{Op: "table", Name: "w"}
	assert.NoError(t, r.CheckCounts(&bare, 3), "the program reads none")

	path := filepath.Join(filepath.Dir(o.Program.Path), "c.yaml")
	require.NoError(t, os.WriteFile(path, []byte("program: of.json\nmodel: gcn\nlayers: 3\n"), 0o666))
	read := Defaults()
	require.NoError(t, ReadConfig(path, &read))
	assert.Equal(t, o.Program.Path, read.Program.Path, "relative to the folder of the file")
	r, err = read.Resolve()
	require.NoError(t, err)
	assert.Equal(t, []string{"layers"}, r.Unused())
}

// TestScheduleFile: a schedule may be a file with a factor for each epoch, of which the last holds on.
func TestScheduleFile(t *testing.T) {
	for text, want := range map[string]string{
		"1\n0.5 0.25\n": "", "": "it is empty", "1 -2": `"-2" is no factor`,
		"1 x": `"x" is no factor`, "inf": "is no factor",
	} {
		o := Defaults()
		o.Schedule = filepath.Join(t.TempDir(), "rates.txt")
		require.NoError(t, os.WriteFile(o.Schedule, []byte(text), 0o666))
		r, err := o.Resolve()
		if want != "" {
			assert.Refused(t, err, want, text)
			continue
		}
		require.NoError(t, err)
		schedule := optim.Schedule{Factors: r.Factors(), Epochs: 3}
		got := []float64{schedule.Factor(1), schedule.Factor(3), schedule.Factor(9)}
		assert.Equal(t, []float64{1, .25, .25}, got)
		o.Warmup = 3
		_, err = o.Resolve()
		assert.Refused(t, err, "it has a factor for each epoch, and --warmup others", text)
	}
	o := Defaults()
	o.Schedule = "linear"
	_, err := o.Resolve()
	assert.Refused(t, err, "--schedule linear: unknown schedule", "")
}
