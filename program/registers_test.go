package program

import (
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestRegistersOfCards: a chain of operations of any length is cut into expressions that have kernels on a
// card, and so have their gradients. A card has few registers.
func TestRegistersOfCards(t *testing.T) {
	operands := map[string]int{"where": 3}
	for name := range unary {
		operands[name] = 1
	}
	for _, name := range binary {
		operands[name] = 2
	}
	delete(operands, "detach") // which is no operation
	for name, n := range operands {
		onCard(t, name, chain(name, n, "features"))
		onCard(t, name+" with constants", chain(name, n, "constant"))
	}
}

// chain returns the last value of a long chain of one operation. Each link has other constants, and other
// operands after the first.
func chain(name string, operands int, others string) (last *value) {
	made := 0
	leaf := func(op string) *value {
		made++
		o := Operation{Values: []number{number(made)}}
		return &value{op: op, o: o, number: made, Type: Type{Rows: Vertices, Shape: []int{2}}}
	}
	last = leaf("features")
	for k := range 300 {
		low, high, other := number(-1-k), number(1+k), 1+float64(k)
		v := &value{op: name, Type: last.Type, in: []*value{last}, o: Operation{
			Op: name, Alpha: &other, Beta: &other, Threshold: &other, Slope: &other, Min: &low, Max: &high,
		}}
		for len(v.in) < operands {
			v.in = append(v.in, leaf(others))
		}
		made++
		v.number, last = made, v
	}
	return last
}

// onCard plans the chain that ends in v on a card. It fails if the CPU would run something.
func onCard(t *testing.T, what string, v *value) {
	t.Helper()
	memory := tensor.NewMeter()
	defer memory.Close()
	require.NoError(t, memory.On(nil, 1<<30))
	team := kernel.NewDevicePlan(1, memory)
	rows := func() *tensor.Matrix { return memory.New(tensor.Activations, 3, 2) }
	for v.op != "features" {
		c := newCluster(v, func(*value) bool { return true })
		forward := &c.expression
		for _, e := range []*kernel.Expression{
			forward, forward.Adjoint(slices.Repeat([]bool{true}, forward.Inputs)),
		} {
			x, z := make([]kernel.Operand, e.Inputs), make([]*tensor.Matrix, len(e.Results))
			for k := range x {
				x[k].X = rows()
			}
			for k := range z {
				z[k] = rows()
			}
			team.Pointwise(z, e, x)
		}
		v = c.inputs[0]
	}
	assert.Equal(t, map[string]int64{}, memory.DeviceUse().OnCPU, what)
}
