package program_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/nn"
	"weft/program"
	"weft/tensor"
)

// TestDamaged reads 500 damaged programs. Each is refused in one line, or is another program, which is then
// built. Neither takes much memory.
func TestDamaged(t *testing.T) {
	files, err := filepath.Glob("testdata/*.safetensors")
	require.NoError(t, err)
	chains, err := filepath.Glob("testdata/chains/*.safetensors")
	require.NoError(t, err)
	files = append(files, chains...)
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for k := range 500 {
		_, meta, err := safetensors.ReadFile(files[k%len(files)])
		require.NoError(t, err)
		text := damaged(t, r, meta["program"])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := buildOf(text, 3); err != nil {
			refused++
			if !refusal.Is(err) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 2200 {
				t.Errorf("%s: %v", text, err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%d MB for %s", n>>20, text)
		}
	}
	if refused < 300 {
		t.Errorf("%d of 500 are refused", refused)
	}
}

// TestDoubled reads programs of a few operations that stand for 2⁶⁰ factors, terms or paths.
func TestDoubled(t *testing.T) {
	for _, spec := range []string{
		// the operation that is doubled, from value 4 on, and the operation that then reads the last value %d
		`{"op": "mul", "in": [2, 3]} mul {"op": "scatter", "in": [%d], "reduce": "sum"}`,
		`{"op": "reshape", "in": [2], "shape": [7]} mul {"op": "scatter", "in": [%d], "reduce": "mean"}`,
		`{"op": "sub", "in": [2, 3]} add {"op": "linear", "in": [%d, 1]}`,
		`{"op": "exp", "in": [1]} add {"op": "linear", "in": [2, %d]}`,
		`{"op": "row_sum", "in": [0]} mul {"op": "mul", "in": [2, %d]}`,
		`{"op": "reciprocal", "in": [0]} sub {"op": "gather", "in": [%d], "end": "target"}`,
	} {
		parts := regexp.MustCompile(` (mul|add|sub) `).Split(spec, -1)
		double := regexp.MustCompile(` (mul|add|sub) `).FindStringSubmatch(spec)[1]
		operations := []string{
			`{"op": "features", "shape": [7]}`, `{"op": "parameter", "name": "w"}`,
			`{"op": "gather", "in": [0], "end": "source"}`, `{"op": "gather", "in": [0], "end": "target"}`,
			parts[0],
		}
		for range 60 {
			last := len(operations) - 1
			operations = append(operations, fmt.Sprintf(`{"op": %q, "in": [%d, %d]}`, double, last, last))
		}
		operations = append(operations, fmt.Sprintf(parts[1], len(operations)-1))
		last := len(operations) - 1
		if !strings.Contains(parts[1], "scatter") {
			operations = append(operations, fmt.Sprintf(`{"op": "mul", "in": [%d, 2]}`, last),
				fmt.Sprintf(`{"op": "scatter", "in": [%d], "reduce": "sum"}`, last+1))
			last += 2
		}
		text := fmt.Sprintf(`{"version": 1, "class": "Net", "parameters": [{"name": "w", "shape": [7, 7]}],
			"operations": [%s], "output": %d}`, strings.Join(operations, ", "), last)
		if err := buildOf(text, 7); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// TestWide reads a row of 65,536 parts and one of 5,000 products with a parameter each, in memory that grows
// with the program's text alone.
func TestWide(t *testing.T) {
	operations := []string{
		`{"op": "features", "shape": [7]}`, `{"op": "gather", "in": [0], "end": "source"}`,
		`{"op": "gather", "in": [0], "end": "target"}`,
	}
	var parameters, products []string
	for i := range 5000 {
		last := len(operations)
		parameters = append(parameters, fmt.Sprintf(`{"name": "p%d", "shape": [7], "trained": %t}`, i, i%2 > 0))
		operations = append(operations, fmt.Sprintf(`{"op": "parameter", "name": "p%d"}`, i),
			fmt.Sprintf(`{"op": "mul", "in": [%d, %d]}`, last, 1+i%4/2))
		products = append(products, fmt.Sprint(last+1))
	}
	parts := strings.Repeat("1, 2, ", 1<<15)
	for _, in := range []string{parts[:len(parts)-2], strings.Join(products, ", ")} {
		last := len(operations)
		text := fmt.Sprintf(`{"version": 1, "class": "Net", "parameters": [%s], "operations": [%s,
			{"op": "cat", "in": [%s]}, {"op": "scatter", "in": [%d], "reduce": "mul"}], "output": %d}`,
			strings.Join(parameters, ", "), strings.Join(operations, ", "), in, last, last+1)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, buildOf(text, 0))
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 400 {
			t.Errorf("%d MB for a program of %d kB", n, len(text)>>10)
		}
	}
}

// buildOf reads a program and builds its blocks in a plan.
func buildOf(text string, outputs int) error {
	p, err := program.Read(strings.NewReader(text))
	if err != nil {
		return err
	}
	schema := gnn.OneType(7, 4)
	schema.Types[0].Vertices = 30
	specs, err := p.Blocks(schema, outputs, 1)
	if err != nil {
		return err
	}
	mem := tensor.NewMeter()
	defer mem.Close()
	gnn.Build(specs, 0, len(specs), gnn.Env{
		Params: nn.NewParams(kernel.NewPlan(1, mem), 0), Schema: schema,
		Rows:        []*autograd.RowSet{autograd.AllHere(30)},
		Propagators: func(string, gnn.Along) gnn.Propagator { return nil },
	})
	return nil
}

// damaged changes one thing in a program: its bytes, or a value of its JSON.
func damaged(t *testing.T, r *rand.Rand, text string) string {
	switch r.IntN(8) {
	case 0:
		return text[:r.IntN(len(text))]
	case 1:
		i := r.IntN(len(text))
		return text[:i] + string(rune(32+r.IntN(95))) + text[i+1:]
	}
	var p map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	operations := p["operations"].([]any)
	at := r.IntN(len(operations))
	o := operations[at].(map[string]any)
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[r.IntN(len(names))]
	other := operations[r.IntN(len(operations))].(map[string]any)
	numbers := []any{
		-1, 0, 1, 2, 7, 1 << 20, 1 << 40, 1e300, "inf", "", "x", nil, true,
		[]any{},
		[]any{1, 1 << 30},
		[]any{-3},
	}
	switch r.IntN(6) {
	case 0:
		delete(o, name)
	case 1:
		o[name] = numbers[r.IntN(len(numbers))]
	case 2:
		if list, is := o[name].([]any); is && len(list) > 0 {
			list[r.IntN(len(list))] = numbers[r.IntN(len(numbers))]
		} else {
			o[name] = other[name]
		}
	case 3:
		operations[at] = other
	case 4:
		p["operations"] = slices.Delete(operations, at, at+1)
	case 5:
		o["op"] = other["op"]
	}
	changed, err := json.Marshal(p)
	require.NoError(t, err)
	return string(changed)
}
