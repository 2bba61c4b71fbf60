package program_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/program"
	"weft/tensor"
)

// regularized is a program of two layers with these operations behind it, of which the last is added to the
// loss.
func regularized(operations string) string {
	return fmt.Sprintf(`{"version":1,"class":"Net","parameters":[{"name":"v","shape":[2,3],"trained":true},
		{"name":"w","shape":[2,2],"trained":true},{"name":"unread","shape":[2],"trained":true}],"operations":[
		{"op":"features","shape":[3]},{"op":"parameter","name":"v"},{"op":"parameter","name":"w"},
		{"op":"linear","in":[0,1]},{"op":"gather","in":[3],"end":"source"},{"op":"scatter","in":[4],"reduce":"sum"},
		{"op":"linear","in":[5,2]},%s],"output":6,"regularization":%d}`, operations,
		6+strings.Count(operations, `"op"`))
}

// sums are ½·Σ|v| − 3·Σw².
const sums = `{"op":"abs","in":[1]},{"op":"sum","in":[7]},{"op":"square","in":[2]},{"op":"sum","in":[9]},
	{"op":"constant","values":[3]},{"op":"mul","in":[11,10]},{"op":"constant","values":[2]},{"op":"div","in":[8,13]},
	{"op":"sub","in":[14,12]}`

// added adds the gradient of the regularization of parameters with these names, of the values 1, −2, 3, ….
func added(t *testing.T, text string, first bool,
	names ...string,
) (value float64, gradients map[string][]float32, err error) {
	p, err := program.Read(strings.NewReader(text))
	require.NoError(t, err)
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	ps, state := nn.NewParams(team, 1), nn.State{}
	for _, q := range p.Parameters {
		for _, name := range names {
			if q.Name == name {
				ps.Any(name, q.Shape, true) // as weights of products lie
				of := nn.Tensor{Shape: q.Shape}
				for k := range q.Shape[0] * q.Shape[1] {
					of.Float32 = append(of.Float32, []float32{1, -1}[k%2]*float32(k+1))
				}
				state[name] = of
			}
		}
	}
	require.NoError(t, ps.Load(state))
	r, err := p.NewRegularization(ps, first)
	if err != nil || r == nil {
		return 0, nil, err
	}
	value = r.AddGradient(team)
	gradients = map[string][]float32{}
	for name, g := range gradientsOf(ps) {
		gradients[name] = g.Float32
	}
	return value, gradients, nil
}

// TestRegularization: a sum of terms has its value and gradient, for weights that lie transposed, too. Stages
// have the terms of their parameters, together the same.
func TestRegularization(t *testing.T) {
	dv, dw := []float32{.5, -.5, .5, -.5, .5, -.5}, []float32{-6, 12, -18, 24}
	value, gradients, err := added(t, regularized(sums), true, "v", "w")
	require.NoError(t, err)
	assert.Equal(t, 10.5-90, value)
	assert.Equal(t, dv, gradients["v"])
	assert.Equal(t, dw, gradients["w"])
	one, _, err := added(t, regularized(sums), true, "v")
	require.NoError(t, err)
	two, gradients, err := added(t, regularized(sums), false, "w")
	require.NoError(t, err)
	assert.Equal(t, value, one+two)
	assert.Equal(t, dw, gradients["w"])
	// of v·vᵀ − w, in the order of its elements
	product := `{"op":"linear","in":[1,1]},{"op":"sub","in":[7,2]},{"op":"constant","shape":[2,2],"values":[1,2,3,4]},
		{"op":"mul","in":[8,9]},{"op":"sum","in":[10]}`
	value, gradients, err = added(t, regularized(product), true, "v", "w")
	require.NoError(t, err)
	assert.Equal(t, 14+(2+3)*-32+4*77-(1-4+9-16.), value)
	assert.Equal(t, []float32{-1, -2, -3, -4}, gradients["w"])
	// Σₖ Σ kv of more terms than an expression has inputs
	terms, total := `{"op":"sum","in":[1]}`, "7"
	for k := 8; k < 8+4*40; k += 4 {
		terms += fmt.Sprintf(`,{"op":"constant","values":[%d]},{"op":"mul","in":[1,%d]},{"op":"sum","in":[%d]},
			{"op":"add","in":[%s,%d]}`, k/4-1, k, k+1, total, k+2)
		total = fmt.Sprint(k + 3)
	}
	value, gradients, err = added(t, regularized(terms), true, "v")
	require.NoError(t, err)
	assert.Equal(t, (1+40*41/2)*-3, value)
	assert.Equal(t, slices.Repeat([]float32{1 + 40*41/2}, 6), gradients["v"])
	_, _, err = added(t, regularized(product), true, "v")
	assert.Contains(t, err.Error(), "a term of parameters of several stages")
}

// TestRegularizationRefuses what is no number of the model's parameters.
func TestRegularizationRefuses(t *testing.T) {
	for operations, want := range map[string]string{
		`{"op":"abs","in":[2]}`:                                               "regularization: a tensor of shape [2 2], and it is one number",
		`{"op":"row_sum","in":[6]},{"op":"sum","in":[7]}`:                     "depends on the graph",
		`{"op":"vertices"}`:                                                   "depends on the graph",
		`{"op":"parameter","name":"unread"},{"op":"sum","in":[7]}`:            `reads "unread", which the model does not`,
		strings.Repeat(`{"op":"abs","in":[2]},`, 2) + `{"op":"sum","in":[0]}`: "and it is one number",
	} {
		_, err := program.Read(strings.NewReader(regularized(operations)))
		assert.Refused(t, err, want, operations)
	}
	beyond := strings.Replace(regularized(sums), `"regularization":15`, `"regularization":99`, 1)
	_, err := program.Read(strings.NewReader(beyond))
	assert.Refused(t, err, "regularization: there is no value 99", "")
	doubled := []string{`{"op":"sum","in":[2]}`} // 2⁶⁰ terms
	for k := range 60 {
		doubled = append(doubled, fmt.Sprintf(`{"op":"add","in":[%d,%[1]d]}`, 7+k))
	}
	value, _, err := added(t, regularized(strings.Join(doubled, ",")), true, "v", "w")
	require.NoError(t, err)
	assert.Equal(t, -2*float64(1<<60), value)
}
