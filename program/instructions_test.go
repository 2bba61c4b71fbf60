package program_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
)

// TestCountedExpressions: the expressions whose instructions scripts/device/instructions.py counts are the
// ones that modules of PyTorch have, forward and backward.
func TestCountedExpressions(t *testing.T) {
	text, err := os.ReadFile("../scripts/device/instructions.py")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(text), "MODULES = {")
	list, _, _ = strings.Cut(list, "\n}\n")
	module := regexp.MustCompile(`(?s)"(\w+)": \[(.*?)\n?\s*\],`)
	files := map[string]string{"EdgeConv": "edge", "GENConv": "gen-edges", "MeshGraphNet": "mesh"}
	for _, m := range module.FindAllStringSubmatch(list, -1) {
		var has []string
		for _, e := range readGolden(t, "testdata/"+files[m[1]]+".safetensors").program.Expressions() {
			wanted := slices.Repeat([]bool{true}, e.Inputs)
			has = append(has, computed(e), computed(e.Adjoint(wanted)))
		}
		counted := regexp.MustCompile(`\(\d+, \d+, "[^"]*"\)`).FindAllString(m[2], -1)
		if len(counted) < 2 {
			t.Errorf("%s: %q", m[1], m[2])
		}
		for _, e := range counted {
			if !slices.Contains(has, e) {
				t.Errorf("%s has no %s but %q", m[1], e, has)
			}
		}
		delete(files, m[1])
	}
	assert.Equal(t, map[string]string{}, files)
}

// computed describes an expression in the kernel's form: constants first, each value once, and only values
// that a result needs.
func computed(e *kernel.Expression) string {
	names := map[kernel.Operation]string{}
	for name, o := range kernel.Operations {
		names[o] = name
	}
	needed := map[int]bool{}
	for _, r := range e.Results {
		needed[r] = true
	}
	for k := len(e.Code) - 1; k >= 0; k-- {
		i := e.Code[k]
		for _, r := range []int{i.A, i.B, i.C}[:i.Op.Operands()] {
			needed[r] = needed[r] || needed[e.Inputs+k]
		}
	}
	same, known := map[int]int{}, map[kernel.Instruction]int{}
	var constants, others []string
	for k, i := range e.Code {
		for n, r := range []*int{&i.A, &i.B, &i.C} {
			if to, is := same[*r]; is && n < i.Op.Operands() {
				*r = to
			}
		}
		before, is := known[i]
		switch {
		case !needed[e.Inputs+k]:
		case is:
			same[e.Inputs+k] = before
		case i.Op == kernel.OpConstant:
			constants, known[i] = append(constants, names[i.Op]), e.Inputs+k
		default:
			others, known[i] = append(others, names[i.Op]), e.Inputs+k
		}
	}
	all := strings.Join(append(constants, others...), " ")
	return fmt.Sprintf("(%d, %d, %q)", e.Inputs, len(e.Results), all)
}
