package program_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/program"
	"weft/tensor"
)

// counting returns a program with a counter, a rate and these updates.
func counting(updates string) string {
	return fmt.Sprintf(`{"version":1,"class":"Net","parameters":[{"name":"w","shape":[2,3],"trained":true},
		{"name":"step","shape":[]},{"name":"rate","shape":[2]}],"operations":[
		{"op":"features","shape":[3]},{"op":"parameter","name":"w"},{"op":"parameter","name":"step"},
		{"op":"parameter","name":"rate"},{"op":"constant","values":[1]},{"op":"add","in":[2,4]},{"op":"mul","in":[3,5]},
		{"op":"linear","in":[0,1]},{"op":"training"},{"op":"where","in":[8,7,6]},{"op":"vertices"},
		{"op":"row_sum","in":[7]},{"op":"sum","in":[1]},{"op":"uniform","in":[0]}],"output":9,"updates":[%s]}`, updates)
}

// TestUpdates: after each training pass all buffers get the values of their updates at once, also buffers
// that the model does not read.
func TestUpdates(t *testing.T) {
	p, err := program.Read(strings.NewReader(counting(`{"name":"step","value":5},{"name":"rate","value":6}`)))
	require.NoError(t, err)
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	schema := gnn.OneType(3, 2)
	specs, err := p.Blocks(schema, 0, 1)
	require.NoError(t, err)
	ps := nn.NewParams(team, 1)
	gnn.Build(specs, 0, len(specs), gnn.Env{
		Params: ps, Schema: schema, Rows: []*autograd.RowSet{autograd.AllHere(30)},
		Propagators: func(string, gnn.Along) gnn.Propagator { return nil },
	})
	require.NoError(t, ps.Load(nn.State{
		"w":    {Shape: []int{2, 3}, Float32: make([]float32, 6)},
		"step": {Shape: []int{}, Float32: []float32{2}}, "rate": {Shape: []int{2}, Float32: []float32{1, -2}},
	}))
	live := team.Memory.LiveTensors()
	for range 3 {
		ps.Commit()
	}
	state := ps.State()
	assert.Equal(t, []float32{5}, state["step"].Float32)
	assert.Equal(t, []float32{3 * 4 * 5, -2 * 3 * 4 * 5}, state["rate"].Float32)
	assert.Equal(t, live, team.Memory.LiveTensors())
}

// TestWrongUpdates: an update that a pass cannot make is refused.
func TestWrongUpdates(t *testing.T) {
	for update, want := range map[string]string{
		`{"name":"w","value":1}`:                              `"w" is no parameter that is not trained`,
		`{"name":"v","value":1}`:                              `"v" is no parameter that is not trained`,
		`{"name":"step","value":5},{"name":"step","value":5}`: "or is there twice",
		`{"name":"step","value":14}`:                          "there is no value 14, as there are 14 operations",
		`{"name":"step","value":-1}`:                          "there is no value -1",
		`{"name":"step","value":6}`:                           `"step" of shape [] becomes a tensor of shape [2]`,
		`{"name":"rate","value":7}`:                           `"rate" of shape [2] becomes rows of vertices`,
		`{"name":"step","value":10}`:                          "depends on more than buffers and constants",
		`{"name":"step","value":8}`:                           "depends on more than buffers and constants",
		`{"name":"rate","value":11}`:                          "depends on more than buffers and constants",
		`{"name":"step","value":12}`:                          "depends on more than buffers and constants",
		`{"name":"step","value":5,"path":"layer"}`:            `unknown field "path"`,
	} {
		_, err := program.Read(strings.NewReader(counting(update)))
		assert.ErrorContains(t, err, want)
	}
}
